// The loaded part of an inbox.
// SPDX-License-Identifier: Apache-2.0
/** @import { AddPage, ApplyChange, ApplyEvent, Box, NewBox, Notification, Put, Steps } from './types.js' */

/** Maximum number of loaded items. */
const MOST = 10_000;

/** Floor of a box without a page. */
export const UNLOADED = '~';

/** @type {NewBox} */
export const newBox = () => ({ items: new Map(), unreadCount: 0, unseenCount: 0, cursor: null, floor: UNLOADED });

/** Returns the place of an item in the order of lists. @param {Notification} item */
export const place = ({ createdAt, id }) => `${createdAt} ${String(id).padStart(20, '0')}`;

/** Sets or removes an item. @type {Put} */
const put = (box, id, next) => {
  const old = box.items.get(id);
  box.unreadCount += Number(next?.clickedAt === null) - Number(old?.clickedAt === null);
  box.unseenCount += Number(next?.seenAt === null) - Number(old?.seenAt === null);
  if (next) box.items.set(id, next);
  else box.items.delete(id);
};

/** @type {Steps} */
const STEPS = {
  seen: (item, at) => ({ ...item, seenAt: item.seenAt ?? at }),
  unseen: (item) => ({ ...item, seenAt: null, clickedAt: null }),
  read: (item, at) => ({ ...item, seenAt: item.seenAt ?? at, clickedAt: item.clickedAt ?? at }),
  unread: (item) => ({ ...item, clickedAt: null }),
  deleted: () => undefined,
  archived: () => undefined,
  snoozed: () => undefined,
  unarchived: (item) => item,
  unsnoozed: (item) => item,
  state: (item, _, state = null) => ({ ...item, state }),
};

/** Applies a change to the items that are loaded. @type {ApplyChange} */
export const applyChange = (box, { change, ids = [], upTo, state, at }) => {
  for (const id of upTo ? [...box.items.keys()].filter((id) => id <= upTo) : ids) {
    const item = box.items.get(id);
    if (item) put(box, id, STEPS[change](item, new Date(at).toISOString(), state));
  }
  if (!upTo) return;
  // Items that can still be unread or unseen are newer.
  const newer = [...box.items.values()].filter(({ id }) => id > upTo);
  if (change !== 'seen') box.unreadCount = newer.filter(({ clickedAt }) => !clickedAt).length;
  box.unseenCount = newer.filter(({ seenAt }) => !seenAt).length;
  if (change !== 'deleted') return;
  // The box is complete, so items that return belong to it.
  box.cursor = null;
  box.floor = '';
};

/** Sorts the items, newest first. @param {Box} box */
const sort = (box) => {
  const items = [...box.items.values()].sort((a, b) => (place(a) < place(b) ? 1 : -1)).slice(0, MOST);
  box.items = new Map(items.map((item) => [item.id, item]));
  if (items.length < MOST) return;
  box.floor = place(items[MOST - 1]);
  box.cursor = null;
};

/** @type {AddPage} */
export const addPage = (box, { data, unreadCount, unseenCount, pagination: { nextCursor: cursor } }) => {
  for (const item of data) box.items.set(item.id, item);
  const last = data.at(-1);
  Object.assign(box, { unreadCount, unseenCount, cursor, floor: cursor ? (last ? place(last) : box.floor) : '' });
  sort(box);
};

/** Applies an event. A repeated event has no effect. @type {ApplyEvent} */
export const applyEvent = (box, { name, data: { notification: item, id, change, upTo, unreadCount, unseenCount } }) => {
  const isLoaded = item && box.items.has(item.id);
  if (item?.createdAt && (isLoaded || place(item) >= box.floor)) {
    box.items.set(item.id, item);
    if (!isLoaded) sort(box);
  }
  if (name === 'notification.deleted') box.items.delete(id);
  if (change) applyChange(box, { change: change.slice(3).toLowerCase(), upTo, at: Date.now() });
  Object.assign(box, { unreadCount, unseenCount });
};
