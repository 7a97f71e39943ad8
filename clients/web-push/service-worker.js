// Tidings: shows the notifications of web push, opens their links, and reports clicks.
// SPDX-License-Identifier: Apache-2.0
//
// Serve this file from your own origin, or import it into a service worker that you have already:
//   importScripts('/tidings-service-worker.js')
// README.md beside it describes the message that it reads.
'use strict';

(() => {
  /** What is shown where a message has no title: browsers show a notification of their own where a push shows none. */
  const UNTITLED = 'New notification';

  /** The message of a push; an empty one where it is not what Tidings sends. */
  const read = (data) => {
    try {
      const message = data ? data.json() : {};
      return message && typeof message === 'object' ? message : {};
    } catch {
      return {};
    }
  };

  const text = (value) => (typeof value === 'string' && value !== '' ? value : undefined);

  /** The address, if it is http or https; a relative one is taken from the worker's own origin. */
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
      // A message that is delivered twice is shown once.
      tag: text(message.deliveryId),
      data: message,
    });

  /** Goes to a window that shows the address, else opens one. */
  const open = async (address) => {
    const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
    const shown = windows.find((window) => window.url === address);
    return shown ? shown.focus() : self.clients.openWindow(address);
  };

  /** Tells Tidings that the notification was opened. No answer is read, so no origin needs to be allowed. */
  const report = (address) => fetch(address, { method: 'POST', mode: 'no-cors', credentials: 'omit', keepalive: true });

  self.addEventListener('push', (event) => {
    event.waitUntil(show(read(event.data)));
  });

  self.addEventListener('notificationclick', (event) => {
    event.notification.close();
    const message = event.notification.data ?? {};
    const [link, clickReport] = [text(message.url) && webAddress(message.url), text(message.clickUrl)];
    // The window first: browsers allow it for a moment only. Neither keeps the other from happening.
    event.waitUntil(
      Promise.allSettled([
        link ? open(link) : undefined,
        clickReport && webAddress(clickReport) ? report(clickReport) : undefined,
      ]),
    );
  });
})();
