// Changes that the server has not confirmed, each with its own entry in localStorage.
// SPDX-License-Identifier: Apache-2.0
/** @import { Change, CreateChanges } from './types.js' */
import { isFinal } from './api.js';
import { remember } from './storage.js';

const DAY = 86_400_000;
/** Maximum number of waiting changes. */
const MOST = 200;
/** Name and time of an entry. */
const ENTRY = /^(\["tidings",.*\] change) (\d+) /s;
/** Changes that move an item. */
export const MOVES = ['archived', 'unarchived', 'snoozed', 'unsnoozed'];
/** Changes that a change replaces. @type {Record<string, string[]>} */
const REPLACES = {
  seen: ['seen'],
  read: ['seen', 'read', 'unread'],
  unread: ['unread'],
  deleted: ['seen', 'read', 'unread', 'state', ...MOVES],
  state: ['state'],
  archived: MOVES,
  snoozed: MOVES,
  unarchived: ['unarchived'],
  unsnoozed: ['unsnoozed'],
};

/** Reads an entry; removes an invalid one. @param {string} key @returns {Change[]} */
const read = (key) => {
  try {
    const change = JSON.parse(remember(key));
    if (Object.hasOwn(REPLACES, change.change) && change.ids.every(Number.isInteger) && change.at)
      return [{ ...change, key }];
  } catch {}
  remember(key, '');
  return [];
};

/** @type {CreateChanges} */
export const createChanges = ({ name, prepare, send, reject, changed }) => {
  /** @type {Change[]} */
  let waiting = [];
  /** Those not stored. @type {Change[]} */
  let unstored = [];
  let [active, running] = [false, false];
  let timer = setTimeout(() => {});

  /** Reads the changes of all tabs. Removes old ones. */
  const load = () => {
    const oldest = Date.now() - DAY;
    waiting = unstored = unstored.filter(({ at }) => at >= oldest);
    try {
      for (const key of Object.keys(localStorage)) {
        const [, owner, at] = key.match(ENTRY) ?? [];
        if (Number(at) < oldest) remember(key, '');
        else if (owner === name) waiting = [...waiting, ...read(key)];
      }
    } catch {
      // Storage is blocked.
    }
    waiting = [...waiting].sort((a, b) => a.at - b.at);
  };

  /** @param {string} key */
  const drop = (key) => {
    waiting = waiting.filter((change) => change.key !== key);
    unstored = unstored.filter((change) => change.key !== key);
    remember(key, '');
  };

  const sendAll = async () => {
    try {
      for (load(); waiting[0]; load()) {
        const [change] = waiting;
        const failure = await prepare()
          .then(() =>
            send(change).catch((thrown) => {
              // After 401 and 403, other credentials may help.
              if (!active || !isFinal(thrown) || [401, 403].includes(thrown.status)) throw thrown;
              reject(thrown);
            }),
          )
          .catch((thrown) => thrown);
        if (failure) {
          const pause = failure.retryAfter || 5 + Math.random() * 25;
          if (active && !isFinal(failure)) timer = setTimeout(flush, 1000 * pause);
          break;
        }
        drop(change.key);
        changed();
      }
    } finally {
      running = false;
    }
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
      if (waiting.length >= MOST) {
        const seen = waiting.find(({ change }) => change === 'seen');
        if (!seen && next.change === 'seen') return;
        drop((seen ?? waiting[0]).key);
        if (!seen) reject({ message: 'too many changes wait', status: 429, code: 'too_many_changes' });
      }
      const change = { ...next, at, key: `${name} ${at} ${Math.random()}` };
      waiting = [...waiting, change];
      if (!remember(change.key, JSON.stringify(change))) unstored.push(change);
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
