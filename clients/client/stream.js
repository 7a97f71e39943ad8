// The event stream: Server-Sent Events over fetch, because EventSource cannot send headers.
// SPDX-License-Identifier: Apache-2.0
/** @import { CreateStream, Failure, StreamEvent } from './types.js' */
import { isFinal } from './api.js';

/** Milliseconds without a byte after which the connection counts as lost. The server sends a comment every 25 s. */
const SILENCE = 60_000;
/** Maximum length of an event in characters. */
const LONGEST = 1 << 20;
/** Reasons of `bye` after which the client does not connect again. */
const FINAL = ['erased', 'app_disabled', 'credentials', 'signed_out'];

/**
 * Parses a stream (HTML standard, section 9.2.6). Calls `alive` for each chunk.
 * @param {Response} response @param {() => void} alive @returns {AsyncGenerator<StreamEvent>}
 */
export async function* parse({ body }, alive) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
  const decoder = new TextDecoder();
  let [rest, name, id, data] = ['', '', '', ''];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, field, content] = line.match(/^(\w*):? ?([^\r]*)/) ?? [];
      if (field === 'event') name = content;
      if (field === 'id') id = content;
      if (field === 'data') data += content;
      if (line.trim()) continue;
      if (data) yield { name, id, data: JSON.parse(data) };
      data = '';
    }
    if (rest.length + data.length > LONGEST) throw new Error('event is too long');
  }
}

/** @type {CreateStream} */
export const createStream = ({ api, lastId, prepare, deliver, status }) => {
  let wake = () => {};

  /** Waits for the time or for `wake`. @param {number} seconds @returns {Promise<void>} */
  const pause = (seconds) =>
    new Promise((resolve) => {
      const timer = seconds < Infinity ? setTimeout(resolve, seconds * 1000) : 0;
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  /**
   * Reads one connection. Returns the data of `bye`.
   * @param {AbortController} once @returns {Promise<{ reason?: string, retryAfter?: number }>}
   */
  const connect = async (once) => {
    let timer = setTimeout(() => {});
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => once.abort(), SILENCE);
    };
    try {
      await prepare();
      alive();
      const headers = { Accept: 'text/event-stream', ...(lastId() && { 'Last-Event-ID': lastId() }) };
      for await (const event of parse(await api('/stream', { headers, signal: once.signal }), alive)) {
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
        const lose = () => once.abort();
        signal.onabort = () => {
          lose();
          wake();
        };
        globalThis.addEventListener?.('offline', lose);
        /** @type {Failure | undefined} */
        let failure;
        const { reason = '', retryAfter = 0 } = await connect(once).catch((thrown) => (failure = thrown));
        globalThis.removeEventListener?.('offline', lose);
        if (signal.aborted) break;

        if (FINAL.includes(reason)) failure = { message: reason, code: reason, status: 403 };
        const final = failure && isFinal(failure);
        status(failure ? 'offline' : 'connecting', final ? failure : undefined);
        while (final && !signal.aborted) await pause(Infinity);
        if (reason === 'expired') api.renew();
        if (Date.now() - started > 10_000) attempt = 0;
        if (reason === 'replaced') await pause(Infinity);
        else if (attempt || !['expired', 'too_long'].includes(reason)) {
          // Full jitter between 0.5 and at most 30 s.
          await pause(Math.max(0.5 + Math.random() * (Math.min(30, 2 ** attempt) - 0.5), retryAfter));
        }
      }
      status('connecting');
    },
  };
};
