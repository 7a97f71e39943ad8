// Settings of <tidings-inbox>: preferences, and the opt-in for web push.
// SPDX-License-Identifier: Apache-2.0
/** @import { CategoryPreference, TopicPreference } from '../client/types.js' */
/** @import { Panel } from './panel.js' */
/** @import { SwitchRow } from './types.js' */
import { remember } from '../client/storage.js';
import { h } from './dom.js';
import { nameOf } from './panel.js';
import { settings as english } from './strings.js';

const css = `
.hint { margin: 0; padding: 0 20px 8px; color: var(--_muted); font-size: 13.5px; }
h3 { margin: 0; padding: 20px 20px 4px; font-size: 15px; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; }
th { padding: 8px 4px; font-weight: 400; overflow-wrap: anywhere; }
thead :is(th, td) { position: sticky; z-index: 1; inset-block-start: 0; background: var(--_bg); box-shadow: 0 1px var(--_line); color: var(--_muted); font-size: 11.5px; line-height: 1.25; vertical-align: bottom; }
thead th { width: 48px; padding-inline: 1px; hyphens: auto; }
tbody th { padding-inline: 20px 8px; text-align: start; line-height: 1.3; }
tbody:not(:last-child) { border-bottom: 1px solid var(--_line); }
tbody:not(:last-child) th { font-weight: 600; }
tr > :last-child { padding-inline-end: 12px; }
td { padding: 0; }
small { display: block; color: var(--_muted); font-size: 12px; }
label { display: grid; place-items: center; min-height: 44px; cursor: pointer; }
.preference { appearance: none; position: relative; width: 32px; height: 20px; margin: 0; border: 1.5px solid var(--_muted); border-radius: 10px; cursor: inherit; }
.preference::before { content: ''; position: absolute; inset-block: 0; inset-inline-start: 3px; width: 11px; height: 11px; margin-block: auto; border-radius: 6px; background: var(--_muted); }
.preference:is(:checked, :indeterminate) { background: var(--_accent); border-color: var(--_accent); }
.preference:is(:checked, :indeterminate)::before { background: var(--_on-accent); }
.preference:checked::before { inset-inline-start: 15px; }
.preference:indeterminate::before { inset-inline-start: 9px; height: 3px; }
.preference:disabled { opacity: .5; }
.preference:focus-visible { outline-offset: 2px; }
@media (prefers-reduced-motion: no-preference) { .preference::before { transition: inset-inline-start .12s; } }
@media (forced-colors: active) { .preference { appearance: auto; } .preference::before { content: none; } }
`;

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

/** Milliseconds for which "Not now" hides the push opt-in. */
const LATER = 30 * 86_400_000;
/** Storage entry with the time of "Not now". */
const LATER_KEY = 'tidings push later';

/** @param {Panel} panel */
export const renderPush = (panel) => {
  panel.adopt(sheet, english);
  const { ui, inbox, text, view } = panel;
  const { push } = ui;
  const { push: state = 'unsupported', items = [] } = inbox?.getSnapshot() ?? {};
  const isSettings = view === 'settings';
  const isLater = Date.now() - Number(remember(LATER_KEY)) < LATER;
  const isOffered = ['default', 'install'].includes(state) && !isLater && items.length > 1;
  push.hidden = isSettings ? state === 'unsupported' : !isOffered && !(state === 'denied' && push.dataset.asked);
  const shown = `${state} ${view} ${text.say('push')}`;
  if (push.dataset.shown === shown) return;
  push.dataset.shown = shown;
  const isNamed = state === 'denied' || state === 'install' || state === 'subscribed';
  push.replaceChildren(h('span', {}, text.say(isNamed ? state : 'push')));

  /** @param {'on' | 'off' | 'later'} name @param {() => unknown} onclick */
  const add = (name, onclick) => {
    const className = name === 'on' ? 'push-on solid' : `push-${name}`;
    push.append(h('button', { type: 'button', className, onclick }, text.say(name)));
  };
  const fail = () => panel.fail();
  if (state === 'default' || state === 'granted') {
    add('on', () => {
      push.dataset.asked = '1';
      inbox?.push.subscribe().then(() => panel.render(), fail);
    });
  }
  if (state === 'subscribed') add('off', () => inbox?.push.unsubscribe().catch(fail));
  if (!isSettings && state !== 'denied') {
    add('later', () => {
      remember(LATER_KEY, String(Date.now()));
      panel.render();
    });
  }
};

/**
 * Creates a table of switches with a row for each category or topic and a column for each channel. Its first row turns a channel on or
 * off for all of them.
 * @param {Panel} panel @param {'everything' | 'allTopics'} everything @param {SwitchRow[]} rows
 * @param {(channel: string, enabled: boolean) => Promise<void>} setAll
 */
const createTable = (panel, everything, rows, setAll) => {
  const { say } = panel.text;
  const channels = rows[0].channels.map(({ channel }) => channel);
  const labels = channels.map((channel) => say(/** @type {'email'} */ (channel)) || channel);

  /** @param {string} name @param {string} label @param {Record<string, unknown>} set */
  const createSwitch = (name, label, set) => {
    const box = h('input', { type: 'checkbox', className: 'preference', ...set });
    box.ariaLabel = `${name}: ${label}`;
    return box;
  };
  const boxes = rows.map(({ id, name, isLocked, channels, set }) =>
    channels.map(({ channel, enabled }, column) => {
      const onchange = () => {
        showAll();
        set(channel, box.checked).catch(() => {
          box.checked = !box.checked;
          showAll();
          panel.fail();
        });
      };
      const state = { role: 'switch', checked: enabled || isLocked, disabled: isLocked, onchange };
      const box = createSwitch(name, labels[column], state);
      Object.assign(box.dataset, { category: id, channel });
      return box;
    }),
  );
  /** Returns the switches of a column that the user can change. @param {number} column */
  const open = (column) => boxes.map((row) => row[column]).filter(({ disabled }) => !disabled);
  const all = channels.map((channel, column) => {
    const onchange = () => {
      const before = open(column).filter((box) => box.checked !== all[column].checked);
      for (const box of before) box.checked = all[column].checked;
      setAll(channel, all[column].checked).catch(() => {
        for (const box of before) box.checked = !box.checked;
        showAll();
        panel.fail();
      });
    };
    return createSwitch(say(everything), labels[column], { onchange });
  });
  /** Shows in the first row which channels are on for all, some or no categories. */
  const showAll = () => {
    all.forEach((box, column) => {
      const on = open(column).filter(({ checked }) => checked).length;
      box.checked = on > 0;
      box.indeterminate = on > 0 && on < open(column).length;
    });
  };
  showAll();

  /** @param {HTMLElement} name @param {HTMLInputElement[]} boxes */
  const createRow = (name, boxes) =>
    h('tr', { className: 'category' }, name, ...boxes.map((box) => h('td', {}, h('label', {}, box))));
  const body = rows.map(({ name, isLocked }, row) => {
    const note = isLocked ? [h('small', {}, say('locked'))] : [];
    return createRow(h('th', { scope: 'row' }, h('bdi', {}, name), ...note), boxes[row]);
  });
  const hasAll = rows.filter(({ isLocked }) => !isLocked).length > 1;
  const first = hasAll ? [createRow(h('th', { scope: 'row' }, say(everything)), all)] : [];
  return h(
    'table',
    { className: 'switches' },
    h('thead', {}, h('tr', {}, h('td'), ...labels.map((label) => h('th', { scope: 'col' }, label)))),
    h('tbody', {}, ...first),
    h('tbody', {}, ...body),
  );
};

/** @param {Panel} panel @param {CategoryPreference[]} list */
const createCategories = (panel, list) => {
  const { inbox, text } = panel;
  /** @param {number | number[]} ids @param {string} channel @param {boolean} enabled */
  const set = async (ids, channel, enabled) => inbox?.preferences.set(ids, channel, enabled);
  const rows = list.map(({ id, critical: isLocked = false, channels, ...category }) => ({
    ...{ id, name: nameOf(category), isLocked, channels },
    set: (/** @type {string} */ channel, /** @type {boolean} */ enabled) => set(id, channel, enabled),
  }));
  const open = rows.filter(({ isLocked }) => !isLocked).map(({ id }) => id);
  const table = createTable(panel, 'everything', rows, (channel, enabled) => set(open, channel, enabled));
  return [h('p', { className: 'hint' }, text.say('choose')), table];
};

/** @param {Panel} panel @param {TopicPreference[]} list */
const createTopics = (panel, list) => {
  const { inbox, text } = panel;
  const rows = list.map(({ id, identifier, channels, ...topic }) => ({
    ...{ id, name: nameOf({ identifier, ...topic }), isLocked: false, channels },
    set: async (/** @type {string} */ channel, /** @type {boolean} */ enabled) =>
      inbox?.preferences.setTopic(identifier, channel, enabled),
  }));
  const table = createTable(panel, 'allTopics', rows, async (channel, enabled) => {
    await Promise.all(rows.map(({ set }) => set(channel, enabled)));
  });
  table.classList.add('topics');
  return [h('h3', {}, text.say('topics')), table];
};

/** @param {Panel} panel @param {CategoryPreference[]} categories @param {TopicPreference[]} topics */
export const renderPreferences = (panel, categories, topics) => {
  panel.adopt(sheet, english);
  const { ui, text } = panel;
  const shown = [
    ...(categories[0]?.channels[0] ? createCategories(panel, categories) : []),
    ...(topics[0]?.channels[0] ? createTopics(panel, topics) : []),
  ];
  ui.preferences.replaceChildren(...(shown[0] ? shown : [h('p', { className: 'state' }, text.say('noChoice'))]));
};
