// Tidings: shows the notifications of web push, opens their links, and reports clicks.
// SPDX-License-Identifier: Apache-2.0
//
// Serve this file from your own origin, or import it into a service worker that you have already:
//   importScripts('/tidings-service-worker.js')
// README.md next to this file describes the messages.
'use strict';

(() => {
  /** Title if the message has none. Every push must show a notification; otherwise the browser shows its own. */
  const UNTITLED = 'New notification';

  /** Parses the data of a push. Returns an empty object if the data is not a JSON object. */
  const read = (data) => {
    try {
      const message = data ? data.json() : {};
      return message && typeof message === 'object' ? message : {};
    } catch {
      return {};
    }
  };

  const text = (value) => (typeof value === 'string' && value !== '' ? value : undefined);

  /** Returns the absolute URL if it is http or https, otherwise undefined. Relative URLs are resolved against the worker's origin. */
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
      // Browsers replace a notification that has the same tag, so a message that arrives twice is shown once.
      tag: text(message.deliveryId),
      data: message,
    });

  /** Focuses a window that shows the URL, or opens a new window. */
  const open = async (address) => {
    const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
    const shown = windows.find((window) => window.url === address);
    return shown ? shown.focus() : self.clients.openWindow(address);
  };

  /** Reports the click to Tidings. The response is not read, so the gateway does not have to allow this origin (CORS). */
  const report = (address) => fetch(address, { method: 'POST', mode: 'no-cors', credentials: 'omit', keepalive: true });

  self.addEventListener('push', (event) => {
    event.waitUntil(show(read(event.data)));
  });

  self.addEventListener('notificationclick', (event) => {
    event.notification.close();
    const message = event.notification.data ?? {};
    const [link, clickReport] = [text(message.url) && webAddress(message.url), text(message.clickUrl)];
    // Open the window first: browsers allow that only for a moment after the click. If one call fails, the other still runs.
    event.waitUntil(
      Promise.allSettled([
        link ? open(link) : undefined,
        clickReport && webAddress(clickReport) ? report(clickReport) : undefined,
      ]),
    );
  });
})();
