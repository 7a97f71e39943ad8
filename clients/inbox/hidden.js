// Archived and snoozed notifications in <tidings-inbox>: the menu of an item, and the view of all.
// SPDX-License-Identifier: Apache-2.0
/** @import { HiddenPage, Notification } from '../client/types.js' */
/** @import { Panel } from './panel.js' */
/** @import { Row } from './types.js' */
import { h } from './dom.js';
import { hidden as english } from './strings.js';

const css = `
.menu { position: fixed; inset: var(--_y) auto auto var(--_x); box-sizing: border-box; width: max-content; min-width: 208px; max-width: calc(100vw - 16px); margin: 0; padding: 5px; overflow: auto; color: var(--_text); background: var(--_bg); border: 1px solid var(--_line); border-radius: 10px; box-shadow: 0 8px 28px #0003; }
h3 { margin: 0; padding: 10px 20px 4px; color: var(--_muted); font-size: 12px; font-weight: 600; }
.heading { padding: 6px 10px 4px; color: var(--_muted); font-size: 12px; }
.menu button { display: flex; align-items: center; gap: 20px; justify-content: space-between; width: 100%; min-height: 34px; padding: 6px 10px; border-radius: 6px; }
.menu button:is(:hover, :focus) { background: var(--_hover); }
.menu hr { margin: 5px 0; border: 0; border-top: 1px solid var(--_line); }
.when { color: var(--_muted); }
@media (hover: none) { .menu button { min-height: 44px; } }
@media (hover: hover) { .menu :is(.menu-toggle, .menu-remove) { display: none; } }
`;

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

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
  // The next Monday, but not tomorrow.
  ['week', () => morning(8 - new Date().getDay())],
];

/** Shows when a snooze ends: today the time, later the day. @param {Date} time @param {string} locale */
const shown = (time, locale) =>
  time.toDateString() === new Date().toDateString()
    ? time.toLocaleTimeString(locale, { timeStyle: 'short' })
    : time.toLocaleDateString(locale, { weekday: 'short', day: 'numeric', month: 'short' });

/**
 * Moves a menu next to its button, above or below it, inside the window.
 * @param {HTMLElement} menu @param {HTMLElement} button
 */
const move = (menu, button) => {
  const { left, right, top, bottom } = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const { clientWidth, clientHeight } = document.documentElement;
  const x = menu.matches(':dir(rtl)') ? left : right - width;
  const y = bottom + 4 + height > clientHeight - 8 ? top - 4 - height : bottom + 4;
  menu.style.setProperty('--_x', `${Math.max(8, Math.min(x, clientWidth - width - 8))}px`);
  menu.style.setProperty('--_y', `${Math.max(8, Math.min(y, clientHeight - height - 8))}px`);
};

/** Opens the menu of an item, or closes it. @param {Panel} panel @param {Notification} item @param {Row} row */
export const openMenu = (panel, item, { row, hide }) => {
  panel.adopt(sheet, english);
  const { inbox, ui, text } = panel;
  const { say, locale } = text;
  const open = panel.panel.querySelector('.menu');
  if (open instanceof HTMLElement) return open.hidePopover();
  /** @param {string} name @param {string} label @param {() => void} run @param {string} [detail] */
  const choice = (name, label, run, detail = '') => {
    const onclick = () => {
      menu.hidePopover();
      run();
    };
    const children = [h('span', {}, label), h('span', { className: 'when' }, detail)];
    const set = { type: 'button', role: 'menuitem', tabIndex: -1, className: `menu-${name}`, onclick };
    return h('button', set, ...children);
  };
  const times = TIMES.map(([name, until]) => {
    const snooze = () => panel.remove(item, 'snoozed', () => inbox?.snooze(item.id, until()));
    return choice(name, say(name), snooze, shown(until(), locale));
  });
  const menu = h(
    'div',
    { className: 'menu', role: 'menu', popover: 'auto' },
    h('div', { className: 'heading', ariaHidden: 'true' }, say('snooze')),
    h('div', { role: 'group', ariaLabel: say('snooze') }, ...times),
    h('hr'),
    choice('toArchive', say('toArchive'), () => panel.archive(item)),
    // On screens without a pointer, these have no buttons of their own.
    choice('toggle', say(item.clickedAt ? 'markUnread' : 'markRead'), () => panel.toggle(item)),
    choice('remove', say('remove'), () => panel.remove(item)),
  );
  menu.ariaLabel = say('actions');
  const close = () => menu.hidePopover();
  const follow = () => {
    // The event of an earlier scroll may arrive late.
    if (hide.getBoundingClientRect().top !== top) close();
  };
  const { activeElement } = panel.root;
  const from = row.contains(activeElement) ? /** @type {HTMLElement} */ (activeElement) : hide;
  menu.addEventListener('beforetoggle', () => {
    // The browser returns the focus only when the outermost popover closes.
    if (menu.matches(':focus-within')) from.focus();
  });
  menu.addEventListener('toggle', () => {
    if (menu.matches(':popover-open')) return;
    ui.scroll.removeEventListener('scroll', follow);
    menu.remove();
    hide.ariaExpanded = 'false';
  });
  menu.addEventListener('keydown', (event) => {
    const choices = [...menu.querySelectorAll('button')].filter((one) => one.checkVisibility());
    const at = choices.findIndex((one) => one.matches(':focus'));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) choices.at(to % choices.length)?.focus();
    else if (event.key === 'Tab') close();
    // The keys of the panel have no effect in the menu.
    event.stopPropagation();
    if (to !== undefined || event.key === 'Tab') event.preventDefault();
  });
  panel.panel.append(menu);
  menu.showPopover();
  move(menu, hide);
  const { top } = hide.getBoundingClientRect();
  ui.scroll.addEventListener('scroll', follow);
  hide.ariaExpanded = 'true';
  menu.querySelector('button')?.focus();
};

/** Shows the snoozed and archived notifications. Resolves to false if they cannot be loaded. @param {Panel} panel */
export const renderHidden = async (panel) => {
  panel.adopt(sheet, english);
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
    const heading = h('h3', {}, say(place === 'snoozed' ? 'snoozing' : 'archive'));
    const list = h('ul', { className: 'items' });
    list.ariaLabel = heading.textContent;
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
    return [heading, list, more];
  });
  const empty = h('p', { className: 'state' }, say('nothing'));
  const showEmpty = () => {
    empty.hidden = ui.preferences.querySelector('li') !== null;
    for (const [heading, list] of lists) heading.hidden = !list.childElementCount;
  };
  ui.preferences.replaceChildren(...lists.flat(), empty);
  showEmpty();
  return true;
};
