// Server-Sent Events over fetch, because EventSource cannot send headers.
// SPDX-License-Identifier: Apache-2.0
/** @import { Bye, CreateStream, Failure, Parse } from './types.js' */
import { abortable, isFinal, toSeconds } from './api.js';

/** Milliseconds without a byte after which the connection is lost. */
const SILENCE = 60_000;
/** Maximum length of an event in characters. */
const LONGEST = 1 << 20;
/** Final reasons of `bye`. */
const FINAL = ['erased', 'app_disabled', 'credentials'];

/** Parses a stream (HTML standard, section 9.2.6). @type {Parse} */
export const parse = async function* (reader, alive) {
  const decoder = new TextDecoder();
  let [rest, name, id, data] = ['', '', '', ''];
  let isCr = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const text = decoder.decode(value, { stream: true });
    // LF may arrive after its CR.
    const lines = (rest + (isCr ? text.replace(/^\n/, '') : text)).split(/\r\n?|\n/);
    if (text) isCr = text.endsWith('\r');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, field, content] = line.match(/^([^:]*):? ?(.*)$/s) ?? [];
      if (field === 'event') name = content;
      if (field === 'id' && !content.includes('\0')) id = content;
      if (field === 'data') data += `${content}\n`;
      if (line) continue;
      if (data.trim()) yield { name, id, data: JSON.parse(data) };
      name = data = '';
    }
    if (rest.length + data.length > LONGEST) throw new Error('event is too long');
  }
};

/** @type {CreateStream} */
export const createStream = ({ api, lastId, prepare, deliver, status }) => {
  let wake = () => {};

  /** Waits for the time or for `wake`. @param {number} seconds */
  const pause = (seconds) =>
    new Promise((resolve) => {
      wake = () => resolve(clearTimeout(timer));
      const timer = seconds < Infinity ? setTimeout(wake, seconds * 1000) : 0;
    });

  /** Reads one connection. @param {AbortController} once @returns {Promise<Bye>} */
  const connect = async (once) => {
    let timer = setTimeout(() => {});
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => once.abort(), SILENCE);
    };
    try {
      const open = async () => {
        await prepare();
        alive();
        const headers = { Accept: 'text/event-stream', ...(lastId() && { 'Last-Event-ID': lastId() }) };
        return api('/stream', { headers, signal: once.signal });
      };
      const { body } = await abortable(once.signal, open());
      for await (const event of parse(/** @type {NonNullable<typeof body>} */ (body).getReader(), alive)) {
        if (event.name === 'bye') return event.data;
        if (event.name === 'ready') status('live');
        await deliver(event);
      }
      return {};
    } finally {
      clearTimeout(timer);
      once.abort();
    }
  };

  return {
    wake: () => wake(),

    run: async (signal) => {
      for (let attempt = 0; !signal.aborted; attempt++) {
        const started = Date.now();
        const once = new AbortController();
        const end = () => {
          once.abort();
          wake();
        };
        signal.onabort = end;
        globalThis.addEventListener?.('offline', end, { signal: once.signal });
        /** @type {Failure | undefined} */
        let failure;
        const { reason = '', retryAfter = 0 } = await connect(once).catch((thrown) => (failure = thrown));
        if (signal.aborted) break;

        if (FINAL.includes(reason)) failure = { message: reason, code: reason, status: 403 };
        const final = failure && isFinal(failure);
        const isShown = final || (failure?.status && attempt > 2);
        status(failure || reason === 'replaced' ? 'offline' : 'connecting', isShown ? failure : undefined);
        if (final) {
          // After `wake`, one attempt with a new token.
          do await pause(Infinity);
          while (reason === 'erased' && !signal.aborted);
          api.renew();
          continue;
        }
        if (reason === 'expired') api.renew();
        if (Date.now() - started > 10_000) attempt = 0;
        if (reason === 'replaced') await pause(Infinity);
        else if (attempt || retryAfter || !['expired', 'too_long'].includes(reason)) {
          // Full jitter, 0.5 to 30 s.
          await pause(Math.max(0.5 + Math.random() * (Math.min(30, 2 ** attempt) - 0.5), toSeconds(retryAfter)));
        }
      }
      status('connecting');
    },
  };
};
