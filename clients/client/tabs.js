// A Web Lock elects the tab that leads. Without locks or channels, each tab leads.
// SPDX-License-Identifier: Apache-2.0
/** @import { JoinTabs } from './types.js' */

/** @type {JoinTabs} */
export const joinTabs = ({ name, lead, receive }) => {
  const locks = globalThis.navigator?.locks;
  const channel = locks && globalThis.BroadcastChannel && new BroadcastChannel(name);
  if (channel) channel.onmessage = ({ data }) => receive(data);
  /** @type {AbortController | undefined} */
  let candidacy;
  const leave = () => {
    candidacy?.abort();
    candidacy = undefined;
  };

  return {
    post: (message) => channel?.postMessage(message),
    enter: () => {
      if (candidacy) return;
      candidacy = new AbortController();
      const { signal } = candidacy;
      if (!channel) void lead(signal);
      // The browser refuses locks if storage is blocked.
      else locks.request(name, { signal }, () => lead(signal)).catch(() => (signal.aborted ? undefined : lead(signal)));
    },
    leave,
    close: () => {
      leave();
      channel?.close();
    },
  };
};
