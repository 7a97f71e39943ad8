// Archived and snoozed notifications in <tidings-inbox>: the menu of an item, and the view of all.
// SPDX-License-Identifier: Apache-2.0
/** @import { HiddenPage, Notification } from '../client/types.js' */
/** @import { Panel } from './panel.js' */
/** @import { Row } from './types.js' */
import { h } from './dom.js';

/** Hour of the day at which notifications return. */
const MORNING = 9;

/** Returns the morning of a later day. @param {number} days */
const morning = (days) => {
  const time = new Date();
  time.setDate(time.getDate() + days);
  time.setHours(MORNING, 0, 0, 0);
  return time;
};

/** Ends of a snooze. @type {['hour' | 'tomorrow' | 'week', () => Date][]} */
const TIMES = [
  ['hour', () => new Date(Date.now() + 3_600_000)],
  ['tomorrow', () => morning(1)],
  // The next Monday.
  ['week', () => morning(8 - (new Date().getDay() || 7))],
];

/** Opens the menu of an item, or closes it. @param {Panel} panel @param {Notification} item @param {Row} row */
export const openMenu = (panel, item, { body, hide }) => {
  const open = body.querySelector('.menu');
  const close = () => {
    (open ?? menu).remove();
    hide.ariaExpanded = 'false';
    hide.focus();
  };
  const { say } = panel.text;
  /** @param {'hour' | 'tomorrow' | 'week' | 'toArchive'} name @param {() => void} onclick */
  const choice = (name, onclick) => h('button', { type: 'button', className: `menu-${name}`, onclick }, say(name));
  const times = TIMES.map(([name, until]) =>
    choice(name, () => panel.remove(item, 'snoozed', () => panel.inbox?.snooze(item.id, until()))),
  );
  const menu = h('div', { className: 'menu blocks', role: 'group' }, ...times, choice('toArchive', () => panel.archive(item)));
  menu.ariaLabel = say('hide');
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    // The panel stays open.
    event.preventDefault();
    event.stopPropagation();
    close();
  });
  if (open) return close();
  body.append(menu);
  hide.ariaExpanded = 'true';
  times[0].focus();
};

/** Shows the snoozed and archived notifications. Resolves to false if they cannot be loaded. @param {Panel} panel */
export const renderHidden = async (panel) => {
  const { inbox, ui, text } = panel;
  const { say, locale } = text;
  /** @type {['snoozed' | 'archived', 'unsnooze' | 'unarchive'][]} */
  const places = [
    ['snoozed', 'unsnooze'],
    ['archived', 'unarchive'],
  ];
  if (!inbox) return false;
  const pages = await Promise.all(places.map(([place]) => inbox.hidden(place))).catch(() => undefined);
  if (!pages || inbox !== panel.inbox) return false;
  if (panel.view !== 'archive') return true;

  /** @param {'unsnooze' | 'unarchive'} undo @param {HTMLElement} list @param {HiddenPage} page */
  const add = (undo, list, { items }) => {
    for (const item of items) {
      const time = new Date(item.snoozedUntil ?? item.archivedAt ?? 0);
      const shown = time.toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' });
      const onclick = () => {
        inbox[undo](item.id);
        const next = row.nextElementSibling ?? row.previousElementSibling;
        row.remove();
        (/** @type {HTMLElement | null | undefined} */ (next?.querySelector('button')) ?? ui.back).focus();
        showEmpty();
      };
      const back = h('button', { type: 'button', className: 'unhide', onclick }, say('unhide'));
      const row = h(
        'li',
        { className: 'item' },
        h(
          'div',
          { className: 'body' },
          h('span', { className: 'title', dir: 'auto' }, item.title ?? ''),
          h('span', { className: 'message', dir: 'auto' }, item.message ?? ''),
          h('div', { className: 'meta' }, item.snoozedUntil ? say('returns').replace('{time}', shown) : shown),
          h('div', { className: 'blocks' }, back),
        ),
      );
      list.append(row);
    }
  };
  const lists = places.map(([place, undo], number) => {
    const list = h('ul', { className: 'items' });
    list.ariaLabel = say(place === 'snoozed' ? 'snoozing' : 'archive');
    let page = pages[number];
    add(undo, list, page);
    const more = h('button', { type: 'button', className: 'more-hidden' }, say('more'));
    more.hidden = !page.cursor;
    let isLoading = false;
    more.onclick = async () => {
      if (isLoading) return;
      isLoading = true;
      const last = list.lastElementChild;
      try {
        page = await inbox.hidden(place, page.cursor ?? undefined);
        add(undo, list, page);
        const first = last?.nextElementSibling?.querySelector('button') ?? ui.back;
        if (!page.cursor) first.focus();
      } catch {
        panel.fail();
      }
      isLoading = false;
      more.hidden = !page.cursor;
    };
    return [list, more];
  });
  const empty = h('p', { className: 'state' }, say('nothing'));
  const showEmpty = () => {
    empty.hidden = ui.preferences.querySelector('li') !== null;
  };
  ui.preferences.replaceChildren(...lists.flat(), empty);
  showEmpty();
  return true;
};
