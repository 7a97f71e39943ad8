// Web push of this browser, for pages with a service worker. The worker of `clients/web-push` shows the messages.
// SPDX-License-Identifier: Apache-2.0
/** @import { CreatePush, PushState } from './types.js' */
import { remember } from './storage.js';

/** Waits until a registration has an active worker. @param {ServiceWorkerRegistration} registration */
const activated = async (registration) => {
  const next = registration.installing ?? registration.waiting;
  if (!registration.active && next) {
    await new Promise((resolve, reject) => {
      next.onstatechange = () => {
        if (registration.active) resolve(undefined);
        else if (next.state === 'redundant') reject(new Error('the service worker cannot be installed'));
      };
    });
  }
  return registration;
};

/** @type {CreatePush} */
export const createPush = ({ name, worker, api, device, app, changed }) => {
  const key = `${name} push`;
  /** @param {string} method @param {unknown} [body] */
  const call = (method, body) => {
    const SECRET = remember(`${name} secret`);
    return api(`/devices/${device.ID}/webPushSubscription`, { method, body, device: SECRET ? { SECRET } : {} });
  };
  /** @type {PushState} */
  let state = 'unsupported';
  const workers = worker ? globalThis.navigator?.serviceWorker : undefined;
  const registration = () => workers?.getRegistration(worker);
  /** Returns the subscription, unless another user of this browser owns it. */
  const own = async () => {
    const subscription = await (await registration())?.pushManager?.getSubscription();
    return subscription?.endpoint === remember(key) ? subscription : undefined;
  };

  /** @returns {Promise<PushState>} */
  const detect = async () => {
    if (!workers) return 'unsupported';
    if (!globalThis.PushManager) return /iP(hone|ad)/.test(navigator.userAgent) ? 'install' : 'unsupported';
    if (!(await app()).enableWebPush) return 'unsupported';
    const { permission } = Notification;
    return permission !== 'granted' ? permission : (await own()) ? 'subscribed' : 'granted';
  };
  const update = async () => {
    state = await detect().catch(() => state);
    changed();
    return state;
  };

  return {
    get state() {
      return state;
    },
    update,
    subscribe: async () => {
      // Safari allows the question only directly after a click, so it comes before any call.
      if (workers && worker && (await Notification.requestPermission()) === 'granted') {
        const { pushManager } = await activated(await workers.register(worker));
        const options = { userVisibleOnly: true, applicationServerKey: (await app()).publicKey };
        const subscription = await pushManager.subscribe(options).catch(async () => {
          // A subscription with another key exists.
          await (await pushManager.getSubscription())?.unsubscribe();
          return pushManager.subscribe(options);
        });
        await call('POST', subscription);
        remember(key, subscription.endpoint);
      }
      return update();
    },
    unsubscribe: async () => {
      // Without its subscription the browser receives nothing, even if the call fails.
      if (await (await own())?.unsubscribe()) await call('DELETE');
      remember(key, '');
      return update();
    },
    silence: async ({ data }, items) => {
      const { notification: item, requestId = item?.clickedAt && item.requestId, change = '', upTo } = data;
      const isAll = /Read|Deleted/.test(change);
      const changed = isAll ? items.filter(({ id }) => id <= upTo) : [];
      const ids = [requestId, ...changed.map((item) => item.requestId)].filter(Boolean);
      // Items that are not loaded have no request id here. If nothing is left unread, no web push is newer than the change.
      const closesAll = isAll && data.unreadCount === 0;
      if (!closesAll && !ids[0]) return;
      for (const shown of (await (await registration())?.getNotifications()) ?? []) {
        const id = shown.data?.requestId;
        if (id && (closesAll || ids.includes(id))) shown.close();
      }
    },
  };
};
