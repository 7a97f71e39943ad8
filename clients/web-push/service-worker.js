// Service worker of Tidings: shows the notifications that arrive by web push, opens their links, and reports clicks.
// SPDX-License-Identifier: Apache-2.0
//
// Serve this file from your own origin. If your site already has a service worker, import the file in it:
//   importScripts('/tidings-service-worker.js')
// README.md describes the messages that it reads.
'use strict';

(() => {
  /** Title of a notification whose message has none. A browser shows its own notification if a push shows none. */
  const UNTITLED = 'New notification';

  /** Returns the message of a push, or an empty object if Tidings has not sent the push. */
  const read = (data) => {
    try {
      const message = data ? data.json() : {};
      return message && typeof message === 'object' ? message : {};
    } catch {
      return {};
    }
  };

  const text = (value) => (typeof value === 'string' && value !== '' ? value : undefined);

  /** Returns the URL if it is http or https. A relative URL is resolved against the worker's origin. */
  const webAddress = (value) => {
    try {
      const url = new URL(text(value), self.location.origin);
      return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : undefined;
    } catch {
      return undefined;
    }
  };

  const show = (message) =>
    self.registration.showNotification(text(message.title) ?? UNTITLED, {
      body: text(message.body),
      icon: text(message.icon) && webAddress(message.icon),
      // If a message arrives twice, the second notification replaces the first.
      tag: text(message.deliveryId),
      data: message,
    });

  /** Focuses a window that shows the URL, or opens one. */
  const open = async (address) => {
    const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
    const shown = windows.find((window) => window.url === address);
    return shown ? shown.focus() : self.clients.openWindow(address);
  };

  /** Reports to Tidings that the notification was opened. Ignores the answer, so the app's `cors-origins` need not allow this origin. */
  const report = (address) => fetch(address, { method: 'POST', mode: 'no-cors', credentials: 'omit', keepalive: true });

  self.addEventListener('push', (event) => {
    event.waitUntil(show(read(event.data)));
  });

  self.addEventListener('notificationclick', (event) => {
    event.notification.close();
    const message = event.notification.data ?? {};
    const [link, clickReport] = [text(message.url) && webAddress(message.url), text(message.clickUrl)];
    // Opens the window first, because browsers allow it only for a short time after the click. If one call fails, the other still runs.
    event.waitUntil(
      Promise.allSettled([
        link ? open(link) : undefined,
        clickReport && webAddress(clickReport) ? report(clickReport) : undefined,
      ]),
    );
  });
})();
