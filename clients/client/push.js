// Web push of this browser. The service worker of `clients/web-push` shows the messages.
// SPDX-License-Identifier: Apache-2.0
/** @import { CreatePush, PushState } from './types.js' */
import { remember } from './storage.js';

/** @type {CreatePush} */
export const createPush = ({ name, worker, app, call, changed }) => {
  /** @type {PushState} */
  let state = 'unsupported';
  const workers = worker ? globalThis.navigator?.serviceWorker : undefined;
  const registration = () => workers?.getRegistration(worker);
  /** Returns the subscription, unless another user of this browser owns it. */
  const own = async () => {
    const subscription = await (await registration())?.pushManager?.getSubscription();
    return subscription?.endpoint === remember(name) ? subscription : undefined;
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
        await workers.register(worker);
        const { pushManager } = await workers.ready;
        const options = { userVisibleOnly: true, applicationServerKey: (await app()).publicKey };
        const subscription = await pushManager.subscribe(options).catch(async () => {
          // A subscription with another key exists.
          await (await pushManager.getSubscription())?.unsubscribe();
          return pushManager.subscribe(options);
        });
        await call('POST', subscription);
        remember(name, subscription.endpoint);
      }
      return update();
    },
    unsubscribe: async () => {
      // Without its subscription the browser receives nothing, even if the call fails.
      if (await (await own())?.unsubscribe()) await call('DELETE');
      remember(name, '');
      return update();
    },
    close: async (matches) => {
      for (const shown of (await (await registration())?.getNotifications()) ?? []) {
        if (shown.data?.requestId && matches(shown.data.requestId)) shown.close();
      }
    },
  };
};
