// English strings, by the file that uses them. `{n}` is replaced by a number.
// SPDX-License-Identifier: Apache-2.0

/** Strings of the bell. */
export const bell = {
  title: 'Notifications',
  unreadCount: '{n} unread',
  newCount: '{n} new',
};

/** Strings of the panel. */
export const panel = {
  all: 'All',
  unread: 'Unread',
  readAll: 'Mark all as read',
  settings: 'Settings',
  back: 'Back',
  close: 'Close',
  empty: 'No notifications yet',
  caughtUp: 'You are all caught up',
  loading: 'Loading…',
  error: 'Notifications could not be loaded',
  retry: 'Try again',
  offline: 'You are offline. Changes are sent later.',
  failed: 'The change could not be saved',
  markRead: 'Mark as read',
  markUnread: 'Mark as unread',
  remove: 'Delete',
  removed: 'Notification deleted',
  actions: 'More actions',
  archive: 'Archive',
  archived: 'Notification archived',
  snoozed: 'Notification snoozed',
  undo: 'Undo',
};

/** Strings of the menu of a notification, and of the archive. */
export const hidden = {
  snooze: 'Snooze until',
  hour: 'In an hour',
  tomorrow: 'Tomorrow',
  week: 'Next week',
  toArchive: 'Archive',
  snoozing: 'Snoozed',
  nothing: 'Nothing archived or snoozed',
  returns: 'Returns {time}',
  unhide: 'Move to inbox',
  more: 'Load more',
};

/** Strings of the settings, and of the opt-in for web push. */
export const settings = {
  push: 'Get these when the tab is closed',
  on: 'Turn on',
  off: 'Turn off',
  later: 'Not now',
  subscribed: 'This browser shows notifications when the tab is closed',
  denied: 'Your browser blocks notifications. Allow them in the site settings, next to the address.',
  install: 'To get these on this device, tap Share, then Add to Home Screen.',
  choose: 'Choose where each kind of notification reaches you.',
  noChoice: 'There is nothing to choose yet',
  everything: 'All categories',
  topics: 'Topics',
  allTopics: 'All topics',
  locked: 'Always on',
  inApp: 'Inbox',
  email: 'Email',
  sms: 'SMS',
  mobilePush: 'Mobile push',
  webPush: 'Browser push',
};
