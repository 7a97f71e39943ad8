// @tidings/client: the inbox of a user, without a user interface. README.md describes it.
// SPDX-License-Identifier: Apache-2.0
/** @import { App, Box, Connection, CreateInbox, Failure, Json, Kind, LoadedPush, Snapshot, StreamEvent, Tabs } from './types.js' */
import { createApi, isFinal } from './api.js';
import { addPage, applyChange, applyEvent, newBox } from './box.js';
import { createChanges } from './changes.js';
import { remember } from './storage.js';
import { createStream } from './stream.js';
import { joinTabs } from './tabs.js';

/** Milliseconds after which a hidden page closes its connection. */
const HIDDEN = 5 * 60_000;
/** Milliseconds after which the first page is loaded without the stream. */
const PATIENCE = 1_000;
/** Milliseconds in which a change to all items includes those that are not loaded. */
const FRESH = 2_000;
/** Maximum number of items in a call. */
const CHUNK = 100;
/** Maximum number of pages that a refresh loads. */
const PAGES = 10;

/** Creates the inbox of a user. It connects after `start`. @type {CreateInbox} */
export const createInbox = (options) => {
  const { url, apiKey, user, pageSize = 20, categories = [], serviceWorker } = options;
  const name = JSON.stringify(['tidings', url, apiKey, user]);
  const api = createApi(options);
  /** @type {Json} */
  const json = async (...call) => (await api(...call)).json();

  /** State that the server has confirmed. */
  let box = newBox();
  /** @type {Connection} */
  let connection = 'connecting';
  /** Failures: of the last call, and the final one of the stream. @type {(Failure | undefined)[]} */
  let [failure, ended] = [];
  let lastId = '';
  let [started, leads, scheduled] = [false, false, false];
  /** @type {Tabs | undefined} */
  let tabs;
  /** @type {LoadedPush | undefined} */
  let push;

  /** @type {Snapshot | undefined} */
  let snapshot;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  const changed = () => {
    snapshot = undefined;
    if (scheduled) return;
    scheduled = true;
    queueMicrotask(() => {
      scheduled = false;
      listeners.forEach((listener) => listener());
    });
  };
  const getSnapshot = () => {
    if (snapshot) return snapshot;
    const shown = { ...box, items: new Map(box.items) };
    for (const change of changes.pending()) applyChange(shown, change);
    const items = [...shown.items.values()].filter(
      ({ category }) => !categories[0] || categories.includes(category?.identifier ?? ''),
    );
    return (snapshot = Object.freeze({
      items: Object.freeze(items),
      unreadCount: Math.max(0, shown.unreadCount),
      unseenCount: Math.max(0, shown.unseenCount),
      hasMore: shown.cursor !== null,
      loaded: shown.floor < Infinity,
      connection,
      error: ended ?? failure ?? null,
      push: push?.state ?? 'unsupported',
    }));
  };

  /** Steps to repeat on the page that is being loaded. @type {((box: Box) => void)[] | undefined} */
  let log;
  /** @param {(box: Box) => void} step */
  const apply = (step) => {
    log?.push(step);
    step(box);
    changed();
  };

  const device = { ID: remember('tidingsDevice') };
  /** @type {Promise<App> | undefined} */
  let connected;
  /** Registers the user and this browser, once. */
  const connect = () =>
    (connected ??= (async () => {
      device.ID ||= remember('tidingsDevice', crypto.randomUUID?.() ?? String(Math.random()).slice(2));
      const body = { deviceType: 'browser' };
      const { app, deviceSecret } = await json('/sdk/connect', { method: 'POST', device, body });
      if (deviceSecret) remember(`${name} secret`, deviceSecret);
      return app;
    })().catch((thrown) => {
      connected = undefined;
      throw thrown;
    }));

  let loading = Promise.resolve();
  /** Loads pages, in turn. @param {(next: Box) => Promise<void>} load */
  const exclusively = (load) =>
    (loading = loading.then(async () => {
      const next = { ...box, items: new Map(box.items) };
      /** @type {((box: Box) => void)[]} */
      const steps = (log = []);
      try {
        await connect();
        await load(next);
        for (const step of steps) step(next);
        box = next;
        failure = undefined;
      } catch (thrown) {
        failure = /** @type {Failure} */ (thrown);
      }
      log = undefined;
      changed();
    }));
  /** Loads the next page. @param {Box} next */
  const addNext = async (next) => {
    const query = new URLSearchParams({ limit: String(pageSize), ...(next.cursor && { cursor: next.cursor }) });
    if (categories.length === 1) query.set('category', categories[0]);
    addPage(next, await json(`/notifications?${query}`));
  };
  let retry = setTimeout(() => {});
  const refresh = async () => {
    clearTimeout(retry);
    await exclusively(async (next) => {
      // As many pages as before, without gaps.
      const { floor } = next;
      Object.assign(next, newBox());
      for (let page = 0; !page || (page < PAGES && next.cursor && next.floor > floor); page++) await addNext(next);
    });
    if (failure && !isFinal(failure) && started) retry = setTimeout(refresh, 5_000 + Math.random() * 25_000);
  };

  /** Items that events changed during the current call; 0 is all items. */
  let touched = new Set();
  const changes = createChanges({
    name: `${name} change`,
    send: async ({ change, ids, upTo, state, at }) => {
      await connect();
      touched = new Set();
      if (change === 'state') return api(`/notifications/${ids[0]}/state`, { method: 'PUT', body: { state } });
      if (upTo && (Date.now() - at < FRESH || !ids.length)) {
        const all = change === 'read' ? 'Read' : 'Deleted';
        return api(`/notifications/markAllNotificationsAs${all}`, { method: 'POST' });
      }
      for (let first = 0; ; first += CHUNK) {
        const body = { ids: ids.slice(first, first + CHUNK), change };
        const answer = await api('/notifications/bulk', { method: 'POST', body });
        if (first + CHUNK >= ids.length) return answer;
      }
    },
    confirm: (change, status) => {
      failure = undefined;
      // Events that came during the call are newer. After a 202, the event of this change is still to come.
      const ids = change.ids.filter((id) => status === 202 || !touched.has(change.upTo ? 0 : id));
      if (!ids.length) return;
      const confirmed = { ...change, ids };
      apply((box) => applyChange(box, confirmed));
      tabs?.post({ confirmed });
    },
    reject: ({ message, status, code }) => {
      failure = { message, status, code };
      tabs?.post({ rejected: failure });
    },
    changed,
  });
  /** @param {Kind} change @param {number[]} ids @param {string | null} [state] */
  const change = (change, ids, state) => {
    if (ids.length) changes.add({ change, ids, state });
  };
  /** @param {'read' | 'deleted'} change */
  const changeAll = async (change) => {
    if (box.floor === Infinity) await refresh();
    const items = [...box.items.values()].filter(({ clickedAt }) => change === 'deleted' || !clickedAt);
    const [upTo] = box.items.keys();
    if (upTo) changes.add({ change, ids: items.map(({ id }) => id), upTo });
  };

  const loadPush = async () => {
    const { createPush } = await import('./push.js');
    return (push ??= createPush({ name, api, device, worker: serviceWorker, app: connect, changed }));
  };
  const loadPreferences = async () => (await import('./preferences.js')).createPreferences({ api, app: connect });

  /** @param {StreamEvent} event */
  const receive = (event) => {
    const { name, id, data } = event;
    lastId = id || lastId;
    if (name === 'reset' || (name === 'ready' && !(data.resumed && box.floor < Infinity))) void refresh();
    if (data.unreadCount === undefined) return;
    touched.add(data.notification?.id ?? data.id ?? 0);
    apply((box) => applyEvent(box, event));
  };
  const stream = createStream({
    api,
    lastId: () => lastId,
    prepare: connect,
    deliver: async (event) => {
      const { data, name } = event;
      const { id, truncated, requestId } = data.notification ?? {};
      if (truncated) {
        // Without the whole item, only its counters change.
        const load = json(`/notifications/${id}?markSeen=false`);
        data.notification = await load.then((item) => ({ ...item, requestId })).catch(() => null);
      }
      if (name === 'ready') changes.flush();
      receive(event);
      tabs?.post({ event });
      push?.silence(event, box).catch(() => {});
    },
    status: (next, final) => {
      [connection, ended, failure] = [next, final, undefined];
      post();
      changed();
    },
  });

  /** Reports the state of the connection to the other tabs. */
  const post = () => leads && tabs?.post({ connection, lastId, ended: ended && { ...ended, message: ended.message } });
  /** @param {any} message */
  const onMessage = ({ hello, event, confirmed, rejected, ...state }) => {
    if (event) receive(event);
    else if (confirmed) apply((box) => applyChange(box, confirmed));
    else if (hello && leads) {
      stream.wake();
      post();
    } else if (rejected || (state.connection && !leads)) {
      if (rejected) failure = rejected;
      else ({ connection, ended } = state);
      lastId ||= state.lastId ?? '';
      if (box.floor === Infinity) void refresh();
      changed();
    }
  };
  let timer = setTimeout(() => {});
  /** Connects, but disconnects a page that stays hidden. @param {any} [event] */
  const wake = (event) => {
    clearTimeout(timer);
    tabs?.enter();
    tabs?.post({ hello: true });
    if (globalThis.document?.hidden) timer = setTimeout(() => tabs?.leave(), HIDDEN);
    else stream.wake();
    changes.flush();
    // A page from the back-forward cache missed messages of other tabs.
    if (event?.persisted) void refresh();
    if (serviceWorker) loadPush().then((push) => push.update(), changed);
  };
  /** @param {'addEventListener' | 'removeEventListener'} method */
  const listen = (method) => {
    globalThis.document?.[method]('visibilitychange', wake);
    globalThis[method]?.('online', wake);
    globalThis[method]?.('pageshow', wake);
  };

  return {
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    getSnapshot,
    start: () => {
      if (started) return;
      started = true;
      tabs = joinTabs({
        name,
        receive: onMessage,
        lead: async (signal) => {
          leads = true;
          await stream.run(signal);
          leads = false;
        },
      });
      changes.start();
      listen('addEventListener');
      wake();
      setTimeout(() => started && box.floor === Infinity && void refresh(), PATIENCE);
    },
    stop: () => {
      if (!started) return;
      started = false;
      clearTimeout(timer);
      clearTimeout(retry);
      listen('removeEventListener');
      changes.stop();
      tabs?.close();
      tabs = undefined;
    },
    loadMore: () => exclusively(async (next) => (next.cursor ? addNext(next) : undefined)),
    refresh,
    read: (id) => change('read', [id]),
    unread: (id) => change('unread', [id]),
    seen: (ids) => change('seen', ids),
    remove: (id) => change('deleted', [id]),
    setState: (id, state) => change('state', [id], state),
    readAll: () => void changeAll('read'),
    removeAll: () => void changeAll('deleted'),
    preferences: {
      list: async () => (await loadPreferences()).list(),
      set: async (...choice) => (await loadPreferences()).set(...choice),
    },
    push: {
      get state() {
        return getSnapshot().push;
      },
      update: async () => (await loadPush()).update(),
      subscribe: async () => (await loadPush()).subscribe(),
      unsubscribe: async () => (await loadPush()).unsubscribe(),
    },
  };
};
