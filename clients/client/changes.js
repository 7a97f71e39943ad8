// Changes that the server has not confirmed, each with its own entry in localStorage.
// SPDX-License-Identifier: Apache-2.0
/** @import { Change, CreateChanges, Failure } from './types.js' */
import { isFinal } from './api.js';
import { remember } from './storage.js';

const DAY = 86_400_000;
/** Maximum number of waiting changes. */
const MOST = 200;
/** Earlier changes that a change replaces. @type {Record<string, string[]>} */
const REPLACES = {
  seen: ['seen'],
  read: ['seen', 'read', 'unread'],
  unread: ['unread'],
  deleted: ['seen', 'read', 'unread', 'state'],
  state: ['state'],
};

/** @type {CreateChanges} */
export const createChanges = ({ name, send, confirm, reject, changed }) => {
  /** @type {Change[]} */
  let waiting = [];
  let [active, running] = [false, false];
  let timer = setTimeout(() => {});

  /** Reads the changes of all tabs. */
  const load = () => {
    try {
      const entries = Object.entries(localStorage).filter(([key]) => key.startsWith(name));
      waiting = entries.map(([, entry]) => JSON.parse(entry)).sort((a, b) => a.at - b.at);
    } catch {
      // Storage is blocked: the changes wait in memory.
    }
    for (const { key, at } of waiting) if (at < Date.now() - DAY) drop(key);
  };

  /** @param {string} key */
  const drop = (key) => {
    waiting = waiting.filter((change) => change.key !== key);
    remember(key, '');
  };

  const sendAll = async () => {
    for (load(); active && waiting[0]; load()) {
      const [change] = waiting;
      /** @type {Failure | undefined} */
      let failure;
      const answer = await send(change).catch((thrown) => void (failure = thrown));
      if (answer) confirm(change, answer.status);
      else if (failure && isFinal(failure)) reject(failure);
      else {
        if (active) timer = setTimeout(flush, 1000 * (failure?.retryAfter || 5 + Math.random() * 25));
        break;
      }
      drop(change.key);
      changed();
    }
    running = false;
  };

  /** Sends the changes in order, also between tabs. */
  const flush = async () => {
    if (running || !active) return;
    running = true;
    clearTimeout(timer);
    // Without locks, a change may be sent twice.
    await (globalThis.navigator?.locks?.request(name, sendAll).catch(sendAll) ?? sendAll());
  };

  /** @param {StorageEvent} event */
  const onStorage = ({ key }) => {
    if (!key?.startsWith(name)) return;
    load();
    changed();
  };

  return {
    pending: () => waiting,
    add: (next) => {
      const at = Math.max(Date.now(), (waiting.at(-1)?.at ?? 0) + 1);
      for (const { key, change, ids, upTo } of waiting) {
        if (!upTo && REPLACES[next.change].includes(change) && ids.every((id) => next.ids.includes(id))) drop(key);
      }
      if (waiting.length >= MOST) drop(waiting[0].key);
      const change = { ...next, at, key: `${name} ${at} ${Math.random()}` };
      waiting = [...waiting, change];
      remember(change.key, JSON.stringify(change));
      changed();
      void flush();
    },
    flush,
    start: () => {
      active = true;
      globalThis.addEventListener?.('storage', onStorage);
      load();
      void flush();
    },
    stop: () => {
      active = false;
      clearTimeout(timer);
      globalThis.removeEventListener?.('storage', onStorage);
    },
  };
};
