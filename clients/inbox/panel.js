// Content of the panel of <tidings-inbox>: tabs, list and keyboard.
// SPDX-License-Identifier: Apache-2.0
/** @import { Block, Category, Failure, Notification } from '../client/types.js' */
/** @import { Host, Removal, Row, Shell, Strings, Text } from './types.js' */
import { place } from '../client/box.js';
import { BELL, h, icon } from './dom.js';
import { css } from './panel-style.js';
import { panel as english } from './strings.js';

/** Milliseconds for which a deletion, archiving or snooze can be undone. */
const UNDO = 5_000;
/** Milliseconds for which an item must be half visible until it is seen. */
const SEEN = 1_000;
/** Items of a group. Browsers skip the layout of whole groups outside the view. */
const GROUP = 20;
/** Milliseconds for which a failure shows. */
const FAILURE = 10_000;
/** Milliseconds until the next attempt after older items could not be loaded. */
const PAUSE = 5_000;
/** Milliseconds until the next page after one that adds no row. */
const SKIP = 1_000;

const ICONS = {
  settings: 'M4 7h9m4 0h3M4 17h3m4 0h9M15 4.5v5m-6 5v5',
  back: 'M15 5l-7 7 7 7',
  close: 'M6 6l12 12M18 6L6 18',
  read: 'M5 12.5l4.5 4.5L19 7.5',
  unread: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8',
  hide: 'M5.5 12h.01M12 12h.01M18.5 12h.01',
  archive: 'M4 5h16v4H4zM5.5 9v10h13V9M10 13h4',
  remove: 'M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7',
};

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

/** @param {string} className @param {(event: MouseEvent) => unknown} onclick @param {Record<string, unknown>} [set] @param {Node[]} children */
const button = (className, onclick, set, ...children) =>
  h('button', { type: 'button', className, onclick, ...set }, ...children);

/** @param {HTMLElement} element @param {string} label */
const label = (element, label) => {
  element.ariaLabel = element.title = label;
};

/** Returns the URL if a click may open it: http, https, mailto or relative. @param {unknown} value */
const safeLink = (value) => {
  if (typeof value !== 'string' || !value || !URL.canParse(value, document.baseURI)) return '';
  const { protocol, href } = new URL(value, document.baseURI);
  return ['http:', 'https:', 'mailto:'].includes(protocol) ? href : '';
};

/**
 * Returns the name of a category. A category that a send created has its identifier as name, which this function shows as words.
 * @param {Pick<Category, 'name' | 'identifier'>} category
 */
export const nameOf = ({ name, identifier }) => {
  if (name !== identifier) return name;
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/[-_.:/\s]+/g, ' ').trim();
  return words ? words[0].toUpperCase() + words.slice(1) : name;
};

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');

/** Creates the elements of an item. @param {HTMLTemplateElement | null} template @returns {Row} */
const createRow = (template) => {
  const [title, message] = ['title', 'message'].map((className) => h('span', { className, dir: 'auto' }));
  const open = h('a', { className: 'open' }, ...(template ? [template.content.cloneNode(true)] : [title, message]));
  const [meta, blocks, body, acts] = ['meta', 'blocks', 'body', 'acts'].map((className) => h('div', { className }));
  const [toggle, remove, hide] = ['toggle', 'remove', 'hide'].map((name) =>
    h('button', { type: 'button', className: `${name} icon` }),
  );
  const image = h('img', { className: 'image', alt: '', loading: 'lazy', hidden: true });
  hide.append(icon(ICONS.hide));
  remove.append(icon(ICONS.remove));
  body.append(open, ...(template ? [] : [meta]), blocks);
  hide.ariaHasPopup = 'menu';
  acts.append(toggle, remove, hide);
  const row = h('li', { className: 'item' }, image, body, acts);
  return { row, open, title, message, image, meta, body, blocks, toggle, hide, remove };
};

export class Panel {
  /** Incremented to update every row: each minute, and when the language changes. */
  round = 0;
  /** @type {Map<number, Row>} */
  rows = new Map();
  /** @type {Notification[]} */
  shown = [];
  /** Place of the newest item that the list shows; newer items wait behind the pill. */
  top = '';
  /** @type {'all' | 'unread'} */
  tab = 'all';
  /** @type {'list' | 'settings' | 'archive'} */
  view = 'list';
  /** Id of the item that Tab reaches. */
  current = 0;
  /** The removal that can be undone. @type {Removal | undefined} */
  removal;
  /** Ids to mark as seen. @type {Set<number>} */
  seen = new Set();
  /** @type {WeakMap<Element, number>} */
  timers = new WeakMap();
  /** @type {IntersectionObserver[]} */
  observers = [];
  isLoading = false;
  failTimer = 0;
  /** Message of the failure that shows. @type {'failed' | 'error'} */
  failure = 'failed';
  /** @type {Failure | null | undefined} */
  error;

  /** @param {Host} host @param {Shell} shell @param {Text} text */
  constructor(host, { panel, status }, text) {
    this.host = host;
    this.panel = panel;
    this.status = status;
    this.text = text;
    this.root = /** @type {ShadowRoot} */ (host.shadowRoot);
    this.relative = this.createRelative();
    this.ui = this.build();
    this.adopt(sheet, english);
  }

  get inbox() {
    return this.host.inbox;
  }

  /** Number of unread items that a removal hides. */
  get hiddenUnread() {
    const { removal, inbox } = this;
    const item = removal && inbox?.getSnapshot().items.find(({ id }) => id === removal.item.id);
    return Number(item?.clickedAt === null);
  }

  /** Adds the style and the strings of a file. @param {CSSStyleSheet} sheet @param {Partial<Strings>} english */
  adopt(sheet, english) {
    const { adoptedStyleSheets: sheets } = this.root;
    if (!sheets.includes(sheet)) sheets.push(sheet);
    Object.assign(this.text.english, english);
  }

  /** Starts to observe. */
  connect() {
    addEventListener('pagehide', this.commit);
    const half = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), { threshold: 0.5 });
    const end = new IntersectionObserver(([entry]) => entry.isIntersecting && this.more());
    end.observe(this.ui.more);
    this.observers = [half, end];
  }

  disconnect() {
    this.commit();
    removeEventListener('pagehide', this.commit);
    for (const observer of this.observers) observer.disconnect();
    this.observers = [];
    this.clear();
  }

  /** Prepares for another inbox. */
  reset() {
    this.commit();
    clearTimeout(this.failTimer);
    this.failTimer = 0;
    this.top = '';
    this.view = 'list';
    this.ui.preferences.replaceChildren();
    // The buttons belong to the old inbox.
    delete this.ui.push.dataset.shown;
    this.seen.clear();
    this.clear();
  }

  clear() {
    this.rows.clear();
    this.ui.list.replaceChildren();
  }

  createRelative() {
    return new Intl.RelativeTimeFormat(this.text.locale, { numeric: 'auto', style: 'short' });
  }

  /** Updates every row. */
  renew() {
    this.round++;
    this.relative = this.createRelative();
    this.render();
  }

  build() {
    const title = h('h2', { id: 'title' });
    const back = button('back icon', () => this.show('list'), {}, icon(ICONS.back));
    const archive = button('archive icon', () => this.show('archive'), {}, icon(ICONS.archive));
    const settings = button('settings icon', () => this.show('settings'), {}, icon(ICONS.settings));
    const close = button('close icon', () => this.host.hide(), {}, icon(ICONS.close));
    const tabs = /** @type {const} */ (['all', 'unread']).map((name) =>
      button(`tab-${name}`, () => this.select(name), { role: 'tab', id: name, 'aria-controls': 'list' }),
    );
    const readAll = button('all-read', () => this.inbox?.readAll());
    const pill = button('pill', () => this.catchUp(), { hidden: true });
    const [list, more, empty, progress] = [h('div'), h('div', { className: 'more' }), h('p'), h('p')];
    const retry = button('retry solid', () => this.inbox?.refresh());
    const nothing = h('slot', { name: 'empty' }, icon(BELL), empty);
    const state = h('div', { className: 'state', hidden: true }, nothing, progress, retry);
    const scroll = h('div', { className: 'scroll', role: 'tabpanel', id: 'list' }, list, more, state);
    const main = h(
      'div',
      { className: 'list' },
      h('div', { className: 'tabs' }, h('div', { role: 'tablist' }, ...tabs), readAll),
      h('div', { className: 'list' }, pill, scroll),
    );
    const preferences = h('div', { className: 'preferences scroll' });
    const [note, undo, push] = ['note', 'undo', 'push'].map((name) =>
      h('div', { className: `${name} line`, hidden: true }),
    );
    const undoButton = button('undo-button', () => this.undo());
    undo.append(h('span'), undoButton);
    this.panel.append(
      h('slot', { name: 'header' }, h('div', { className: 'bar' }, back, title, archive, settings, close)),
      main,
      preferences,
      note,
      undo,
      push,
      h('slot', { name: 'footer' }),
    );
    this.panel.addEventListener('keydown', (event) => this.key(event));
    list.addEventListener('click', (event) => this.click(event));
    list.addEventListener('focusin', ({ target }) => this.reach(this.idOf(target)));
    list.addEventListener('error', (event) => this.hideImage(event), true);
    return {
      ...{ title, back, archive, settings, close, tabs, readAll, pill, list, more, nothing, empty, progress, retry, state },
      ...{ scroll, main, preferences, note, undo, undoButton, push },
    };
  }

  // Rendering

  render() {
    const { ui } = this;
    const { say } = this.text;
    const snapshot = this.inbox?.getSnapshot();
    const { unreadCount = 0, loaded = false, error = null, connection = 'connecting' } = snapshot ?? {};
    const all = (snapshot?.items ?? []).filter(({ id }) => id !== this.removal?.item.id);

    if (!this.isReading() || !this.top) this.top = all[0] ? place(all[0]) : '';
    // An item that is read in the tab "unread" stays until the tab is selected again.
    this.shown = all.filter(
      (item) => place(item) <= this.top && (this.tab === 'all' || !item.clickedAt || this.rows.has(item.id)),
    );
    this.renderRows();
    if (!this.rows.has(this.current)) this.reach(this.shown[0]?.id);

    const isList = this.view === 'list';
    ui.main.hidden = ui.settings.hidden = ui.archive.hidden = !isList;
    ui.preferences.hidden = ui.back.hidden = isList;
    ui.close.hidden = !this.panel.popover;
    ui.title.textContent = say(this.view === 'list' ? 'title' : this.view);
    for (const name of /** @type {const} */ (['back', 'archive', 'settings', 'close'])) label(ui[name], say(name));
    for (const tab of ui.tabs) {
      tab.textContent = say(/** @type {'all'} */ (tab.id));
      tab.ariaSelected = String(tab.id === this.tab);
      tab.tabIndex = tab.id === this.tab ? 0 : -1;
    }
    ui.scroll.setAttribute('aria-labelledby', this.tab);
    ui.readAll.textContent = say('readAll');
    // The counter includes other categories.
    const hasUnread = unreadCount > this.hiddenUnread && (!this.host.hasAttribute('categories') || this.count('unread'));
    ui.readAll.hidden = !hasUnread;
    const waiting = all.filter((item) => place(item) > this.top).length;
    ui.pill.hidden = !waiting;
    ui.pill.textContent = say('newCount', waiting);

    const isFailed = !loaded && (error || connection === 'offline');
    ui.more.hidden = !this.hasMore();
    ui.list.hidden = !this.shown.length;
    ui.state.hidden = this.shown.length > 0 || this.hasMore();
    ui.nothing.hidden = !loaded;
    ui.empty.textContent = say(this.tab === 'all' ? 'empty' : 'caughtUp');
    ui.progress.hidden = loaded;
    ui.progress.textContent = say(isFailed ? 'error' : 'loading');
    ui.state.classList.toggle('loading', !loaded && !isFailed);
    ui.retry.hidden = !isFailed;
    ui.retry.textContent = say('retry');

    if (error !== this.error && error?.status && loaded) this.fail(error.isChange ? 'failed' : 'error');
    this.error = error;
    const isOffline = connection === 'offline' && loaded;
    ui.note.hidden = !isOffline && !this.failTimer;
    ui.note.textContent = say(isOffline ? (error?.status && !error.isChange ? 'error' : 'offline') : this.failure);
    ui.undo.hidden = !this.removal;
    ui.undo.children[0].textContent = say(this.removal?.done ?? 'removed');
    ui.undoButton.textContent = say('undo');
    void this.renderPush();
  }

  renderRows() {
    const ids = new Set(this.shown.map(({ id }) => id));
    for (const [id, { row }] of this.rows) {
      if (ids.has(id)) continue;
      if (row.contains(this.root.activeElement)) this.panel.focus();
      const group = row.parentElement;
      row.remove();
      if (!group?.childElementCount) group?.remove();
      this.rows.delete(id);
    }
    /** @type {HTMLElement | undefined} */
    let previous;
    for (const item of this.shown) {
      let row = this.rows.get(item.id);
      if (!row) {
        row = createRow(this.host.querySelector(':scope > template[slot=item]'));
        row.row.dataset.id = String(item.id);
        this.rows.set(item.id, row);
        // Items never change their order, so only new rows are placed.
        const group = previous ? previous.parentElement : this.ui.list.firstElementChild;
        if (!group || (group.childElementCount >= GROUP && !previous?.nextSibling)) {
          const added = h('ul', { className: 'items' }, row.row);
          if (previous) group?.after(added);
          else this.ui.list.prepend(added);
        } else if (previous) previous.after(row.row);
        else group.prepend(row.row);
      }
      this.fill(row, item);
      previous = row.row;
    }
  }

  /** Updates the elements of an item in place, so that focus and scroll position stay. @param {Row} row @param {Notification} item */
  fill(row, item) {
    if (item === row.item && this.round === row.round) return;
    const { say, locale } = this.text;
    if (!item.seenAt) this.observers[0]?.observe(row.row);
    else if (!row.item?.seenAt) this.observers[0]?.unobserve(row.row);
    [row.item, row.round] = [item, this.round];
    row.row.toggleAttribute('data-unread', !item.clickedAt);
    row.row.toggleAttribute('data-unseen', !item.seenAt);
    row.title.textContent = item.title;
    row.message.textContent = item.message;
    row.message.hidden = !item.message;
    for (const element of row.open.querySelectorAll('[data-text]')) {
      element.textContent = text(item[/** @type {'title'} */ (element.getAttribute('data-text'))]);
    }
    row.meta.textContent = [this.age(item.createdAt), item.category && nameOf(item.category)].filter(Boolean).join(' · ');
    row.meta.title = new Date(item.createdAt).toLocaleString(locale);
    const link = safeLink(item.url);
    if (link) row.open.href = link;
    else row.open.removeAttribute('href');
    row.open.role = link ? 'link' : 'button';
    row.open.setAttribute('aria-description', item.clickedAt ? '' : say('unread'));
    const source = /^(https?:|\/|data:image\/)/.test(item.icon ?? '') ? item.icon : '';
    row.image.hidden = !source || source === row.failed;
    if (source && row.image.getAttribute('src') !== source) row.image.src = source;
    label(row.toggle, say(item.clickedAt ? 'markUnread' : 'markRead'));
    row.toggle.replaceChildren(icon(item.clickedAt ? ICONS.unread : ICONS.read));
    label(row.hide, say('actions'));
    row.hide.ariaExpanded ??= 'false';
    label(row.remove, say('remove'));
    const focused = [...row.blocks.children].findIndex((block) => block.matches(':focus'));
    row.blocks.replaceChildren(...(item.blocks ?? []).flatMap((block) => this.block(block, item)));
    /** @type {HTMLElement | undefined} */ (row.blocks.children[focused])?.focus();
    row.blocks.hidden = !row.blocks.children.length;
    this.setReach(row, item.id === this.current);
  }

  /** Hides an icon that cannot be loaded, until the item has another one. @param {Event} event */
  hideImage({ target }) {
    const row = this.rows.get(this.idOf(target));
    if (!row || row.image !== target) return;
    row.failed = row.image.getAttribute('src');
    row.image.hidden = true;
  }

  /** @param {Block} block @param {Notification} item @returns {HTMLElement[]} */
  block(block, item) {
    const label = text(block.label) || text(block.text);
    if (!label) return [];
    if (block.type === 'text' || block.type === 'paragraph') return [h('p', { className: 'text', dir: 'auto' }, label)];
    if (block.type !== 'button') return [];
    const link = safeLink(block.url);
    const action = text(block.action) || text(block.value);
    const onclick = (/** @type {MouseEvent} */ event) => {
      event.stopPropagation();
      const detail = { notification: item, action: action || label, block, url: link || undefined };
      if (!this.dispatch('tidings-action', detail)) return event.preventDefault();
      if (!item.clickedAt) this.inbox?.read(item.id);
      if (action) this.inbox?.setState(item.id, action);
    };
    if (link) return [h('a', { href: link, part: 'action', onclick }, label)];
    const ariaPressed = String(Boolean(action) && item.state === action);
    return [h('button', { type: 'button', part: 'action', ariaPressed, onclick }, label)];
  }

  /** @param {string} time */
  age(time) {
    const seconds = (Date.parse(time) - Date.now()) / 1000;
    /** @type {[Intl.RelativeTimeFormatUnit, number][]} */
    const units = [
      ['day', 86_400],
      ['hour', 3_600],
      ['minute', 60],
    ];
    if (seconds < -7 * 86_400) return new Date(time).toLocaleDateString(this.text.locale, { dateStyle: 'medium' });
    const [unit, length] = units.find(([, length]) => -seconds >= length) ?? ['second', Infinity];
    return this.relative.format(Math.ceil(seconds / length) || 0, unit);
  }

  // Settings

  /** Renders the opt-in for web push. */
  async renderPush() {
    const state = this.inbox?.getSnapshot().push ?? 'unsupported';
    if (state === 'unsupported') this.ui.push.hidden = true;
    else (await import('./settings.js').catch(() => undefined))?.renderPush(this);
  }

  /** @param {'list' | 'settings' | 'archive'} view */
  async show(view) {
    const from = this.view === 'archive' ? 'archive' : 'settings';
    this.commit();
    this.view = view;
    this.render();
    this.ui[view === 'list' ? from : 'back'].focus();
    if (view === 'list') return;
    this.showState('loading');
    const { inbox } = this;
    if (view === 'archive') {
      const isShown = await (await import('./hidden.js').catch(() => undefined))?.renderHidden(this);
      if (!isShown && inbox === this.inbox && this.view === view) this.showState('error');
      return;
    }
    const loaded = inbox && Promise.all([inbox.preferences.list(), inbox.preferences.topics()]);
    const lists = await loaded?.catch(() => undefined);
    const settings = lists && (await import('./settings.js').catch(() => undefined));
    if (inbox !== this.inbox || this.view !== view) return;
    if (settings) settings.renderPreferences(this, ...lists);
    else this.showState('error');
  }

  /** @param {'loading' | 'error'} name */
  showState(name) {
    this.ui.preferences.replaceChildren(h('p', { className: 'state' }, this.text.say(name)));
  }

  /** Shows a failure for a while. @param {'failed' | 'error'} name */
  fail(name = 'failed') {
    this.failure = name;
    clearTimeout(this.failTimer);
    this.failTimer = setTimeout(() => {
      this.failTimer = 0;
      this.render();
    }, FAILURE);
    this.ui.note.hidden = false;
    this.ui.note.textContent = this.text.say(name);
  }

  // Actions

  /** Dispatches an event. Returns false if a listener prevented the default. @param {string} type @param {unknown} detail */
  dispatch(type, detail) {
    return this.host.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true, cancelable: true }));
  }

  /** @param {EventTarget | null} target */
  idOf(target) {
    const row = /** @type {Element} */ (target).closest('li');
    return Number(row?.dataset.id);
  }

  /** @param {number} id */
  item(id) {
    return this.shown.find((item) => item.id === id);
  }

  /** @param {number | undefined} id */
  focus(id) {
    this.rows.get(id ?? 0)?.open.focus();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {Element} */ (event.target);
    const item = this.item(this.idOf(target));
    if (!item) return;
    if (target.closest('.toggle')) this.toggle(item);
    else if (target.closest('.hide')) void this.choose(item);
    else if (target.closest('.remove')) this.remove(item);
    else if (target.closest('.open')) {
      // Clicks with these keys open a new tab or window, which the page cannot replace.
      const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
      const detail = { notification: item, url: safeLink(item.url) || undefined };
      const isCancelled = !this.dispatch('tidings-open', detail) && isPlain;
      if (isCancelled) event.preventDefault();
      else if (!item.clickedAt) this.inbox?.read(item.id);
    }
  }

  /** @param {Notification} item */
  toggle({ id, clickedAt }) {
    if (clickedAt) this.inbox?.unread(id);
    else this.inbox?.read(id);
  }

  /** Offers times of a snooze, and the archive. @param {Notification} item */
  async choose(item) {
    const hidden = await import('./hidden.js').catch(() => this.fail());
    const row = this.rows.get(item.id);
    if (hidden && row) hidden.openMenu(this, item, row);
  }

  /** @param {Notification} item */
  archive(item) {
    this.remove(item, 'archived', () => this.inbox?.archive(item.id));
  }

  /**
   * Hides an item, and removes it from the list unless the user undoes this.
   * @param {Notification} item @param {Removal['done']} done @param {() => void} run
   */
  remove(item, done = 'removed', run = () => this.inbox?.remove(item.id)) {
    const at = this.shown.findIndex(({ id }) => id === item.id);
    const hasFocus = this.rows.get(item.id)?.row.matches(':focus-within');
    this.commit();
    this.removal = { item, done, run, timer: setTimeout(this.commit, UNDO) };
    const next = this.shown[at + 1] ?? this.shown[at - 1];
    this.reach(next?.id);
    if (hasFocus) this.focus(next?.id);
    this.host.render();
    this.status.textContent = this.text.say(done);
  }

  /** Ends the time for undoing. */
  endRemoval() {
    const { removal } = this;
    clearTimeout(removal?.timer);
    this.removal = undefined;
    return removal;
  }

  /** Carries out the removal that can be undone. */
  commit = () => {
    const removal = this.endRemoval();
    if (!removal) return;
    removal.run();
    this.host.render();
  };

  undo() {
    const item = this.endRemoval()?.item;
    if (!item) return;
    if (place(item) > this.top) this.top = place(item);
    this.host.render();
    this.focus(item.id);
  }

  /** Makes an item the one that Tab reaches. @param {number | undefined} id */
  reach(id) {
    if (!id) return;
    this.setReach(this.rows.get(this.current), false);
    this.current = id;
    this.setReach(this.rows.get(id), true);
  }

  /** Includes the buttons of an item in the Tab order, or excludes them. @param {Row | undefined} row @param {boolean} isCurrent */
  setReach(row, isCurrent) {
    const stops = /** @type {NodeListOf<HTMLElement> | undefined} */ (row?.row.querySelectorAll('a, button'));
    stops?.forEach((stop) => (stop.tabIndex = isCurrent ? 0 : -1));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
    const { key } = event;
    if (key === 'Tab') return this.trap(event, target);
    if (target.role === 'tab') {
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return;
      this.select(this.tab === 'all' ? 'unread' : 'all');
      return this.ui.tabs.find(({ id }) => id === this.tab)?.focus();
    }
    const id = this.idOf(target);
    if (this.view !== 'list' || (!id && target !== this.panel)) return;
    const item = this.item(id);
    const at = item ? this.shown.indexOf(item) : -1;
    const last = this.shown.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[key];
    if (to !== undefined) this.focus(this.shown[Math.max(0, Math.min(to, last))]?.id);
    else if (item && key.toLowerCase() === 'r') this.toggle(item);
    else if (item && key === 'Delete') this.remove(item);
    else if (item && key.toLowerCase() === 'e') this.archive(item);
    else if (item && key.toLowerCase() === 'h') void this.choose(item);
    else if ((key === 'Enter' || key === ' ') && target.matches('a.open:not([href])')) target.click();
    else return;
    event.preventDefault();
  }

  /** Keeps the focus in the dialog. @param {KeyboardEvent} event @param {HTMLElement} target */
  trap(event, target) {
    if (!this.panel.popover) return;
    const stops = [...this.panel.querySelectorAll('a, button, input, slot')]
      .flatMap((element) =>
        element instanceof HTMLSlotElement
          ? element.assignedElements().flatMap((own) => [own, ...own.querySelectorAll('*')])
          : element,
      )
      .filter((element) => element instanceof HTMLElement && element.tabIndex >= 0 && element.checkVisibility());
    const [from, to] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
    if (target !== from && !(event.shiftKey && target === this.panel)) return;
    event.preventDefault();
    /** @type {HTMLElement | undefined} */ (to)?.focus();
  }

  /** @param {'all' | 'unread'} tab */
  select(tab) {
    this.tab = tab;
    this.clear();
    this.ui.scroll.scrollTop = 0;
    this.render();
  }

  /** Shows the items that wait behind the pill. */
  catchUp() {
    this.top = '';
    this.ui.scroll.scrollTop = 0;
    this.render();
    this.focus(this.shown[0]?.id);
  }

  /** @param {boolean} isOpen */
  toggled(isOpen) {
    if (isOpen) return;
    this.view = 'list';
    this.top = '';
    if (this.tab === 'unread') this.clear();
  }

  /** Returns true if new items must not move the list. */
  isReading() {
    const { scroll, list } = this.ui;
    if (this.panel.popover && !this.panel.matches(':popover-open')) return false;
    return scroll.scrollTop > 0 || list.getBoundingClientRect().top < 0 || list.matches(':hover, :focus-within');
  }

  /** Returns the number of loaded items of the tab. */
  count(tab = this.tab) {
    const items = this.inbox?.getSnapshot().items ?? [];
    return tab === 'all' ? items.length : items.filter(({ clickedAt }) => !clickedAt).length;
  }

  hasMore() {
    const snapshot = this.inbox?.getSnapshot();
    if (!snapshot?.hasMore) return false;
    return this.tab === 'all' || this.count() < snapshot.unreadCount;
  }

  /** Loads older items. */
  async more() {
    if (this.isLoading || !this.hasMore()) return;
    this.isLoading = true;
    const count = this.count();
    const isLoaded = await this.inbox?.loadMore();
    const pause = isLoaded ? (this.count() > count ? 0 : SKIP) : PAUSE;
    if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
    this.isLoading = false;
    // The observer reports only changes, and the end may still be visible.
    this.observers[1]?.unobserve(this.ui.more);
    this.observers[1]?.observe(this.ui.more);
  }

  /** Marks items as seen that stay half visible. @param {IntersectionObserverEntry} entry */
  see({ target, isIntersecting }) {
    clearTimeout(this.timers.get(target));
    if (!isIntersecting) return;
    const check = () => {
      const item = this.item(this.idOf(target));
      if (!target.isConnected || !item || item.seenAt) return;
      if (document.hidden) return void this.timers.set(target, setTimeout(check, SEEN));
      if (!this.seen.size) {
        setTimeout(() => {
          this.inbox?.seen([...this.seen]);
          this.seen.clear();
        }, 100);
      }
      this.seen.add(item.id);
    };
    this.timers.set(target, setTimeout(check, SEEN));
  }
}
