// @tidings/client: the inbox of a user, without a user interface. README.md describes it.
// SPDX-License-Identifier: Apache-2.0
/** @import { App, Box, Connection, CreateInbox, Failure, Json, Kind, LoadedPush, Notification, Snapshot, StreamEvent, Tabs } from './types.js' */
import { createApi, isFinal } from './api.js';
import { UNLOADED, addPage, applyChange, applyEvent, newBox } from './box.js';
import { createChanges, MOVES } from './changes.js';
import { remember } from './storage.js';
import { createStream } from './stream.js';
import { joinTabs } from './tabs.js';

/** Milliseconds after which a hidden page disconnects. */
const HIDDEN = 5 * 60_000;
/** Milliseconds after which the first page loads without the stream. */
const PATIENCE = 1_000;
/** Milliseconds in which a change of all includes items not loaded. */
const FRESH = 2_000;
/** Maximum items of a call. */
const CHUNK = 100;
/** Maximum pages of a refresh. */
const PAGES = 10;

/** @type {CreateInbox} */
export const createInbox = (options) => {
  const { url, apiKey, user, pageSize = 20, categories = [], serviceWorker } = options;
  const name = JSON.stringify(['tidings', url, apiKey, user]);
  const api = createApi(options);
  /** @type {Json} */
  const json = async (...call) => (await api(...call)).json();

  /** Confirmed state. */
  let box = newBox();
  /** @type {Connection} */
  let connection = 'connecting';
  /** Failures of the last call and of the stream. @type {(Failure | undefined)[]} */
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
  /** @param {Notification} item */
  const isShown = ({ category }) => !categories[0] || categories.includes(category?.identifier ?? '');
  const getSnapshot = () => {
    if (snapshot) return snapshot;
    const shown = { ...box, items: new Map(box.items) };
    for (const change of changes.pending()) applyChange(shown, change);
    const items = [...shown.items.values()].filter(isShown);
    return (snapshot = Object.freeze({
      items: Object.freeze(items),
      unreadCount: Math.max(0, shown.unreadCount),
      unseenCount: Math.max(0, shown.unseenCount),
      hasMore: shown.cursor !== null,
      loaded: shown.floor !== UNLOADED,
      connection,
      error: ended ?? failure ?? null,
      push: push?.state ?? 'unsupported',
    }));
  };

  /** Steps to repeat on the next box. @type {((box: Box) => void)[] | undefined} */
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
  /** Registers the user and browser once. */
  const connect = () =>
    (connected ??= (async () => {
      device.ID ||= crypto.randomUUID?.() ?? String(Math.random()).slice(2);
      remember('tidingsDevice', device.ID);
      const body = { deviceType: 'browser' };
      const { app, deviceSecret } = await json('/sdk/connect', { method: 'POST', device, body });
      if (deviceSecret) remember(`${name} secret`, deviceSecret);
      return app;
    })().catch((thrown) => {
      connected = undefined;
      throw thrown;
    }));

  let loading = Promise.resolve(true);
  /** Loads pages, in turn. @param {(next: Box) => Promise<void>} load */
  const exclusively = (load) =>
    (loading = loading.then(async () => {
      const next = { ...box, items: new Map(box.items) };
      /** @type {((box: Box) => void)[]} */
      const steps = (log = []);
      try {
        await load(next);
        for (const step of steps) step(next);
        box = next;
        failure = undefined;
      } catch (thrown) {
        failure = /** @type {Failure} */ (thrown);
      }
      log = undefined;
      changed();
      return !failure;
    }));
  /** @param {Record<string, string>} more */
  const queryOf = (more) => {
    const query = new URLSearchParams({ limit: String(pageSize), ...more });
    if (categories.length === 1) query.set('category', categories[0]);
    return query;
  };
  /** @param {Box} next */
  const addNext = async (next) => {
    addPage(next, await json(`/notifications?${queryOf(next.cursor ? { cursor: next.cursor } : {})}`));
  };
  let retry = setTimeout(() => {});
  /** @param {number} least @param {number} jitter */
  const refreshLater = (least, jitter) => {
    clearTimeout(retry);
    retry = setTimeout(() => started && refresh(), least + Math.random() * jitter);
  };
  /** The refresh that has not begun. @type {Promise<void> | undefined} */
  let queued;
  const refresh = () => {
    clearTimeout(retry);
    return (queued ??= exclusively(async (next) => {
      await connect().finally(() => (queued = undefined));
      // As many pages as before, without gaps.
      const { floor } = next;
      Object.assign(next, newBox());
      for (let page = 0; !page || (page < PAGES && next.cursor && next.floor > floor); page++) await addNext(next);
    }).then(() => {
      if (failure && !isFinal(failure) && started) refreshLater(5_000, 25_000);
    }));
  };

  /** Items that events changed during the call; 0 is all items. */
  let touched = new Set();
  const changes = createChanges({
    name: `${name} change`,
    prepare: connect,
    send: async ({ change, ids, upTo, state, until, at }) => {
      touched = new Set();
      /** @type {Response | undefined} */
      let answer;
      const isAll = upTo && Date.now() - at < FRESH;
      if (isAll) {
        const all = change === 'read' ? 'Read' : 'Deleted';
        answer = await api(`/notifications/markAllNotificationsAs${all}`, { method: 'POST' });
      } else if (change === 'state') {
        answer = await api(`/notifications/${ids[0]}/state`, { method: 'PUT', body: { state } });
      } else {
        for (let first = 0; first < ids.length; first += CHUNK) {
          const body = { ids: ids.slice(first, first + CHUNK), change, until };
          answer = await api('/notifications/bulk', { method: 'POST', body });
        }
      }
      failure = undefined;
      // Events during the call are newer. After a 202, that of this change is still to come.
      const left = ids.filter((id) => answer?.status === 202 || !touched.has(isAll ? 0 : id));
      if (!left.length) return;
      const confirmed = { change, ids: left, state, at, upTo: isAll ? upTo : undefined };
      apply((box) => applyChange(box, confirmed));
      tabs?.post({ confirmed });
    },
    reject: ({ message, status, code }) => {
      failure = { message, status, code, isChange: true };
      tabs?.post({ rejected: failure });
    },
    changed,
  });
  /** @param {Kind} change @param {number[]} ids @param {{ state?: string | null, until?: string }} [more] */
  const change = (change, ids, more) => {
    if (ids.length) changes.add({ change, ids, ...more });
  };
  /** @param {'read' | 'deleted'} change */
  const changeAll = async (change) => {
    if (box.floor === UNLOADED) await refresh();
    const items = [...box.items.values()].filter(isShown);
    const ids = items.filter(({ clickedAt }) => change === 'deleted' || !clickedAt).map(({ id }) => id);
    // The server cannot limit a change of all items to categories.
    const upTo = categories[0] ? undefined : Math.max(0, ...box.items.keys());
    if (upTo || ids[0]) changes.add({ change, ids, upTo });
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
    if (name === 'ready') changes.flush();
    if (name === 'ready' && box.floor === UNLOADED) void refresh();
    // A reset may follow `ready`. An item that cannot be loaded is null.
    else if (name === 'reset' || data.resumed === false || data.notification === null) refreshLater(200, 1_000);
    if (data.unreadCount === undefined) return;
    touched.add(data.notification?.id ?? data.id ?? 0);
    apply((box) => applyEvent(box, event));
  };
  const stream = createStream({
    api,
    lastId: () => lastId,
    prepare: connect,
    deliver: async (event) => {
      const { data } = event;
      const { id, truncated, requestId } = data.notification ?? {};
      if (truncated) {
        const load = json(`/notifications/${id}?markSeen=false`).catch(() => null);
        data.notification = (await load) && { ...(await load), requestId };
      }
      const old = [...box.items.values()];
      receive(event);
      tabs?.post({ event });
      push?.silence(event, old).catch(() => {});
    },
    status: (next, final) => {
      [connection, ended, failure] = [next, final, undefined];
      post();
      changed();
    },
  });

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
      if (box.floor === UNLOADED) void refresh();
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
      setTimeout(() => started && box.floor === UNLOADED && void refresh(), PATIENCE);
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
    setState: (id, state) => change('state', [id], { state }),
    archive: (id) => change('archived', [id]),
    unarchive: (id) => change('unarchived', [id]),
    snooze: (id, until) => change('snoozed', [id], { until: until.toISOString() }),
    unsnooze: (id) => change('unsnoozed', [id]),
    hidden: async (filter, cursor) => {
      await connect();
      const { data, pagination } = await json(`/notifications?${queryOf({ filter, ...(cursor && { cursor }) })}`);
      /** @type {Map<number, Notification>} */
      const items = new Map(data.map((/** @type {Notification} */ item) => [item.id, item]));
      for (const { change, ids, at, until = null } of changes.pending()) {
        if (change !== 'deleted' && !MOVES.includes(change)) continue;
        for (const id of ids) {
          const item = items.get(id) ?? box.items.get(id);
          items.delete(id);
          if (change !== filter || !item || cursor) continue;
          items.set(id, { ...item, archivedAt: until ? null : new Date(at).toISOString(), snoozedUntil: until });
        }
      }
      return { items: [...items.values()].filter(isShown), cursor: pagination.nextCursor };
    },
    readAll: () => void changeAll('read'),
    removeAll: () => void changeAll('deleted'),
    preferences: {
      list: async () => (await loadPreferences()).list(),
      set: async (...choice) => (await loadPreferences()).set(...choice),
      topics: async () => (await loadPreferences()).topics(),
      setTopic: async (...choice) => (await loadPreferences()).setTopic(...choice),
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
