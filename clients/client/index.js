// @tidings/client: the inbox of a user, live and without a user interface. README.md describes it.
// SPDX-License-Identifier: Apache-2.0
/** @import { App, Box, Connection, CreateInbox, Failure, Kind, Preference, PreferenceCategory, Snapshot, StreamEvent } from './types.js' */
import { createApi, isFinal } from './api.js';
import { addPage, applyChange, applyEvent, newBox } from './box.js';
import { createChanges } from './changes.js';
import { createPush } from './push.js';
import { remember } from './storage.js';
import { createStream } from './stream.js';
import { joinTabs } from './tabs.js';

/** Milliseconds after which a hidden page closes its connection. */
const HIDDEN = 5 * 60_000;
/** Milliseconds after which the first page is loaded without the stream. */
const PATIENCE = 1_000;
/** Milliseconds after which a change to all items applies only to those that were loaded. */
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
  /** @param {Parameters<typeof api>} call */
  const json = async (...call) => (await api(...call)).json();

  /** State that the server has confirmed. */
  let box = newBox();
  /** @type {Connection} */
  let connection = 'connecting';
  /** Final failure of the stream. @type {Failure | undefined} */
  let ended;
  /** Failure of the last call. @type {Failure | undefined} */
  let failure;
  let lastId = '';
  let [started, leads] = [false, false];

  /** @type {Snapshot | undefined} */
  let snapshot;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  let scheduled = false;
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
    const { unreadCount, unseenCount, cursor, floor } = shown;
    const items = [...shown.items.values()].filter(
      ({ category }) => !categories[0] || categories.includes(category?.identifier ?? ''),
    );
    return (snapshot = Object.freeze({
      items: Object.freeze(items),
      unreadCount: Math.max(0, unreadCount),
      unseenCount: Math.max(0, unseenCount),
      hasMore: cursor !== null,
      loaded: floor < Infinity,
      connection,
      error: ended ?? failure ?? null,
      push: push.state,
    }));
  };

  /** Steps to repeat on a page that is being loaded, so that an older page never wins. @type {((box: Box) => void)[] | undefined} */
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
  /** Loads pages, one load after the other. @param {(next: Box) => Promise<void>} load */
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
      // Load as many pages as before: a list without gaps and without items that were deleted meanwhile.
      const { floor } = next;
      Object.assign(next, newBox());
      for (let page = 0; !page || (page < PAGES && next.cursor && next.floor > floor); page++) await addNext(next);
    });
    if (failure && !isFinal(failure) && started) retry = setTimeout(refresh, 5_000 + Math.random() * 25_000);
  };

  /** Items that events changed during the current call; 0 stands for all items. */
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
      // An event that came during the call shows a newer state. After a 202, the event of this change is still to come.
      failure = undefined;
      const ids = change.ids.filter((id) => status === 202 || !touched.has(change.upTo ? 0 : id));
      if (!ids.length) return;
      const confirmed = { ...change, ids };
      apply((box) => applyChange(box, confirmed));
      tabs?.post({ confirmed });
    },
    reject: (rejected) => {
      failure = rejected;
    },
    changed,
  });
  /** @param {Kind} change @param {number[]} ids @param {string | null} [state] */
  const change = (change, ids, state) => {
    for (let first = 0; first < ids.length; first += CHUNK) {
      changes.add({ change, ids: ids.slice(first, first + CHUNK), state });
    }
  };
  /** @param {'read' | 'deleted'} change */
  const changeAll = (change) => {
    const ids = [...box.items.values()]
      .filter(({ clickedAt }) => change === 'deleted' || !clickedAt)
      .map(({ id }) => id);
    const [upTo] = box.items.keys();
    if (upTo) changes.add({ change, ids, upTo });
  };

  const push = createPush({
    name: `${name} push`,
    worker: serviceWorker,
    app: connect,
    call: (method, body) => {
      const secret = remember(`${name} secret`);
      return api(`/devices/${device.ID}/webPushSubscription`, {
        method,
        body,
        device: secret ? { SECRET: secret } : {},
      });
    },
    changed,
  });

  /** @param {StreamEvent} event */
  const receive = (event) => {
    const { name, id, data } = event;
    lastId = id || lastId;
    if (name === 'reset' || (name === 'ready' && !(data.resumed && box.floor < Infinity))) void refresh();
    if (data.unreadCount === undefined) return;
    touched.add(data.notification?.id ?? data.id ?? 0);
    apply((box) => applyEvent(box, event));
  };
  /** Closes web pushes of items that were read or deleted: read once, quiet everywhere. @param {StreamEvent} event */
  const silence = ({ data: { notification: item, requestId = item?.clickedAt && item.requestId, change = '' } }) => {
    const unread = [...box.items.values()].filter(({ clickedAt }) => !clickedAt).map((item) => item.requestId);
    if (requestId) return push.close((id) => id === requestId);
    if (/Read|Deleted/.test(change)) return push.close((id) => !unread.includes(id));
  };
  const stream = createStream({
    api,
    lastId: () => lastId,
    prepare: connect,
    deliver: async (event) => {
      const { data, name } = event;
      const { id, truncated } = data.notification ?? {};
      // Without the whole item, only its counters change.
      if (truncated) data.notification = await json(`/notifications/${id}?markSeen=false`).catch(() => null);
      if (name === 'ready') changes.flush();
      receive(event);
      tabs?.post({ event });
      void silence(event)?.catch(() => {});
    },
    status: (next, final) => {
      [connection, ended, failure] = [next, final, undefined];
      post();
      changed();
    },
  });

  /** @type {ReturnType<typeof joinTabs> | undefined} */
  let tabs;
  /** Reports the state of the connection to the other tabs. */
  const post = () => leads && tabs?.post({ connection, lastId, ended: ended && { ...ended, message: ended.message } });
  /** @param {any} message */
  const onMessage = ({ hello, event, confirmed, ...state }) => {
    if (event) receive(event);
    else if (confirmed) apply((box) => applyChange(box, confirmed));
    else if (hello && leads) {
      stream.wake();
      post();
    } else if (state.connection && !leads) {
      ({ connection, ended } = state);
      lastId ||= state.lastId;
      if (box.floor === Infinity) void refresh();
      changed();
    }
  };
  /** @param {AbortSignal} signal */
  const lead = async (signal) => {
    leads = true;
    await stream.run(signal);
    leads = false;
  };

  let timer = setTimeout(() => {});
  /** Resumes if the page is visible or the network is back; closes the connection of a page that stays hidden. */
  const wake = () => {
    clearTimeout(timer);
    if (globalThis.document?.hidden) {
      timer = setTimeout(() => tabs?.leave(), HIDDEN);
      return;
    }
    tabs?.enter();
    tabs?.post({ hello: true });
    stream.wake();
    changes.flush();
    void push.update();
  };
  /** @param {PageTransitionEvent} event */
  const onShow = ({ persisted }) => persisted && void refresh();
  /** @param {'addEventListener' | 'removeEventListener'} method */
  const listen = (method) => {
    globalThis.document?.[method]('visibilitychange', wake);
    globalThis[method]?.('online', wake);
    globalThis[method]?.('pageshow', /** @type {EventListener} */ (/** @type {unknown} */ (onShow)));
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
      tabs = joinTabs({ name, lead, receive: onMessage });
      changes.start();
      listen('addEventListener');
      tabs.enter();
      tabs.post({ hello: true });
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
    readAll: () => changeAll('read'),
    removeAll: () => changeAll('deleted'),
    preferences: {
      list: async () => {
        /** @type {[App, PreferenceCategory[], Preference[]]} */
        const [{ channels = [] }, all, own] = await Promise.all([connect(), json('/categories'), json('/preferences')]);
        return all.flatMap(({ id, identifier, name, hideInPreferenceManager }) => {
          const choices = own.find(({ categoryId }) => categoryId === id)?.channels;
          // Channels without a choice are on.
          const enabled = (/** @type {string} */ channel) =>
            choices?.find((choice) => choice.channel === channel)?.enabled ?? true;
          const shown = channels.map((channel) => ({ channel, enabled: enabled(channel) }));
          return hideInPreferenceManager ? [] : { id, identifier, name, channels: shown };
        });
      },
      set: async (categoryId, channel, enabled) => {
        const body = { preference: [{ categoryId, channels: [{ channel, enabled }] }] };
        await api('/preferences', { method: 'PATCH', body });
      },
    },
    push,
  };
};
