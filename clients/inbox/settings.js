// Settings of <tidings-inbox>: preferences, and the opt-in for web push.
// SPDX-License-Identifier: Apache-2.0
/** @import { CategoryPreference } from '../client/types.js' */
/** @import { Panel } from './panel.js' */
import { remember } from '../client/storage.js';
import { h } from './dom.js';

/** Milliseconds for which "Not now" hides the push opt-in. */
const LATER = 30 * 86_400_000;
/** Storage entry with the time of "Not now". */
const LATER_KEY = 'tidings push later';

/** @param {Panel} panel */
export const renderPush = (panel) => {
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

/** @param {Panel} panel @param {CategoryPreference[]} list */
export const renderPreferences = (panel, list) => {
  const { ui, inbox, text } = panel;
  const categories = list.map(({ id, name, channels }) => {
    const boxes = channels.map(({ channel, enabled }) => {
      const onchange = () =>
        inbox?.preferences.set(id, channel, box.checked).catch(() => {
          box.checked = !box.checked;
          panel.fail();
        });
      const box = h('input', { type: 'checkbox', className: 'preference', checked: enabled, onchange });
      Object.assign(box.dataset, { category: id, channel });
      return h('label', {}, box, text.strings[/** @type {'email'} */ (channel)] ?? channel);
    });
    return h('fieldset', { className: 'category' }, h('legend', {}, name), ...boxes);
  });
  ui.preferences.replaceChildren(...categories);
};
