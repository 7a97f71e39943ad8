// <tidings-inbox>: bell, list, preferences and push opt-in over @tidings/client. README.md describes it.
// SPDX-License-Identifier: Apache-2.0
import { createInbox } from '../client/index.js';
import { remember } from '../client/storage.js';
import { english } from './strings.js';
import { css } from './style.js';

/** @typedef {import('../client/types.js').Inbox} Inbox */
/** @typedef {import('../client/types.js').Notification} Notification */
/** @typedef {ReturnType<typeof createRow>} Row */

/** Milliseconds for which a deletion can be undone. */
const UNDO = 5_000;
/** Milliseconds for which an item must be half visible until it is seen. */
const SEEN = 1_000;
/** Items of a group. Browsers skip the layout of whole groups outside the view. */
const GROUP = 20;
/** Milliseconds between two messages to screen readers. */
const QUIET = 10_000;
/** Milliseconds between two attempts to load older items. */
const PAUSE = 5_000;
/** Milliseconds for which "Not now" hides the push opt-in. */
const LATER = 30 * 86_400_000;
/** Storage entry with the time of "Not now". */
const LATER_KEY = 'tidings push later';

const ICONS = {
  bell: 'M6 9a6 6 0 0 1 12 0c0 6 2.5 7 2.5 7h-17S6 15 6 9M10 20a2.2 2.2 0 0 0 4 0',
  settings: 'M4 7h9m4 0h3M4 17h3m4 0h9M15 4.5v5m-6 5v5',
  back: 'M15 5l-7 7 7 7',
  close: 'M6 6l12 12M18 6L6 18',
  read: 'M5 12.5l4.5 4.5L19 7.5',
  unread: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8',
  remove: 'M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7',
};

/**
 * Creates an element. A member of `set` becomes a property if the element has it, otherwise an attribute.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, unknown>} [set] @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
const h = (tag, set = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (name in element && name !== 'popover') /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  const part = element.className.split(' ')[0];
  if (part) element.setAttribute('part', part);
  return element;
};

/** @param {keyof typeof ICONS} name */
const icon = (name) => {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(svg.namespaceURI, 'path');
  /** @type {Element} */ (path).setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
};

/** Returns the URL if a click may open it: http, https, mailto or relative. @param {unknown} value */
const safeLink = (value) => {
  if (typeof value !== 'string' || !value) return '';
  try {
    const { protocol, href } = new URL(value, document.baseURI);
    return ['http:', 'https:', 'mailto:'].includes(protocol) ? href : '';
  } catch {
    return '';
  }
};

/** @param {unknown} value */
const text = (value) => (typeof value === 'string' ? value : '');

/** Creates the elements of an item. @param {HTMLTemplateElement | null} template */
const createRow = (template) => {
  const open = h('a', { className: 'open' });
  const blocks = h('div', { className: 'blocks' });
  const toggle = h('button', { className: 'toggle icon', type: 'button' });
  const remove = h('button', { className: 'remove icon', type: 'button' }, icon('remove'));
  const [title, message] = [
    h('span', { className: 'title', dir: 'auto' }),
    h('span', { className: 'message', dir: 'auto' }),
  ];
  if (template) open.append(template.content.cloneNode(true));
  else open.append(title, message);
  const [image, meta] = [
    h('img', { className: 'image', alt: '', loading: 'lazy', hidden: true }),
    h('div', { className: 'meta' }),
  ];
  const acts = h('div', { className: 'acts' }, toggle, remove);
  const row = h(
    'li',
    { className: 'item' },
    image,
    h('div', { className: 'body' }, open, ...(template ? [] : [meta]), blocks),
    acts,
  );
  return {
    row,
    open,
    title,
    message,
    image,
    meta,
    blocks,
    toggle,
    remove,
    item: /** @type {Notification | undefined} */ (undefined),
    round: 0,
  };
};

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

export class TidingsInbox extends HTMLElement {
  static observedAttributes = [
    'url',
    'api-key',
    'user',
    'categories',
    'placement',
    'locale',
    'service-worker',
    'header-prefix',
  ];

  /** @type {Inbox | undefined} */
  #inbox;
  /** Attributes from which the element created its inbox; empty if the page set the inbox and must stop it. */
  #origin = '';
  /** @type {(() => void) | undefined} */
  #unsubscribe;
  /** @type {(() => string | Promise<string>) | undefined} */
  #getToken;
  /** @type {Partial<import('./strings.js').Strings>} */
  #custom = {};
  #strings = english;
  #locale = 'en';
  #relative = new Intl.RelativeTimeFormat();
  /** Grows when every row must be updated: each minute, and with the language. */
  #round = 0;
  /** @type {Map<number, Row>} */
  #rows = new Map();
  /** @type {Notification[]} */
  #shown = [];
  /** Newest id that the list shows; newer items wait behind the pill. */
  #top = 0;
  /** Newest id that was announced; undefined before the first page. @type {number | undefined} */
  #announced;
  #announceTimer = 0;
  #tab = 'all';
  #view = 'list';
  /** Id of the item that Tab reaches. */
  #current = 0;
  /** The deletion that can be undone. @type {{ item: Notification, timer: number } | undefined} */
  #removal;
  #seen = /** @type {Set<number>} */ (new Set());
  #timers = /** @type {WeakMap<Element, number>} */ (new WeakMap());
  #observers = /** @type {IntersectionObserver[]} */ ([]);
  #clock = 0;
  #isLoading = false;
  #failTimer = 0;
  /** @type {import('../client/types.js').Failure | null | undefined} */
  #error;
  #ui = this.#build();

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = [sheet];
    root.append(this.#ui.bell, this.#ui.panel, this.#ui.status);
  }

  /** The headless inbox. Set it to use one that the page created; the page then stops it. */
  get inbox() {
    return this.#inbox;
  }
  set inbox(inbox) {
    this.#use(inbox);
  }

  /** Returns a user token, see the headless client. */
  get getToken() {
    return this.#getToken;
  }
  set getToken(getToken) {
    this.#getToken = getToken;
    this.#connect();
  }

  /** Strings that replace those of the language. */
  get strings() {
    return this.#custom;
  }
  set strings(strings) {
    this.#custom = strings;
    void this.#translate();
  }

  /** @private */
  connectedCallback() {
    // Properties that were set before the element was defined hide the accessors.
    for (const name of ['inbox', 'getToken', 'strings']) {
      const self = /** @type {any} */ (this);
      if (!Object.hasOwn(self, name)) continue;
      const value = self[name];
      delete self[name];
      self[name] = value;
    }
    this.#place();
    void this.#translate();
    this.#connect();
    addEventListener('pagehide', this.#commit);
    addEventListener('resize', this.#move);
    addEventListener('scroll', this.#move, { passive: true, capture: true });
    this.#clock = setInterval(() => {
      this.#round++;
      this.#render();
    }, 60_000);
    const half = new IntersectionObserver((entries) => entries.forEach((entry) => this.#see(entry)), {
      threshold: 0.5,
    });
    const end = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#more());
    end.observe(this.#ui.more);
    this.#observers = [half, end];
    this.#watch();
  }

  /** @private */
  disconnectedCallback() {
    this.#commit();
    clearInterval(this.#clock);
    for (const observer of this.#observers) observer.disconnect();
    this.#observers = [];
    this.#clear();
    removeEventListener('pagehide', this.#commit);
    removeEventListener('resize', this.#move);
    removeEventListener('scroll', this.#move, { capture: true });
    // A move disconnects the element and connects it again.
    queueMicrotask(() => {
      this.#watch();
      if (!this.isConnected && this.#origin) this.#use();
    });
  }

  /** @private @param {string} name @param {string | null} old @param {string | null} value */
  attributeChangedCallback(name, old, value) {
    if (old === value || !this.isConnected) return;
    if (name === 'placement') this.#place();
    else if (name === 'locale') void this.#translate();
    else this.#connect();
  }

  /** Opens the panel. */
  show() {
    if (this.#ui.panel.popover && !this.#ui.panel.matches(':popover-open')) this.#ui.panel.showPopover();
  }

  /** Closes the panel. */
  hide() {
    if (this.#ui.panel.popover && this.#ui.panel.matches(':popover-open')) this.#ui.panel.hidePopover();
  }

  // Connection

  /** Creates an inbox from the attributes, unless it exists or the page set one. */
  #connect() {
    if (!this.isConnected || (this.#inbox && !this.#origin)) return;
    const [url, apiKey, user, serviceWorker, headerPrefix] = [
      'url',
      'api-key',
      'user',
      'service-worker',
      'header-prefix',
    ].map((name) => this.getAttribute(name) ?? undefined);
    const categories = this.getAttribute('categories')
      ?.split(/[\s,]+/)
      .filter(Boolean);
    const getToken = this.#getToken && (() => this.#getToken?.() ?? '');
    const origin = JSON.stringify([url, apiKey, user, serviceWorker, headerPrefix, categories, !getToken]);
    if (origin === this.#origin) return;
    if (url === undefined || !apiKey || !user) this.#use();
    else this.#use(createInbox({ url, apiKey, user, serviceWorker, headerPrefix, categories, getToken }), origin);
  }

  /** @param {Inbox} [inbox] @param {string} [origin] */
  #use(inbox, origin = '') {
    this.#commit();
    if (this.#origin) this.#inbox?.stop();
    this.#inbox = inbox;
    this.#origin = origin;
    this.#top = 0;
    this.#announced = undefined;
    this.#seen.clear();
    this.#clear();
    this.#watch();
    inbox?.start();
  }

  /** Follows the inbox while the element is in the page. */
  #watch() {
    this.#unsubscribe?.();
    this.#unsubscribe = this.isConnected ? this.#inbox?.subscribe(() => this.#render()) : undefined;
    this.#render();
  }

  #clear() {
    this.#rows.clear();
    this.#ui.list.replaceChildren();
  }

  // Language and placement

  async #translate() {
    const locale = (this.#locale = this.#findLocale());
    const language = locale.split('-')[0];
    const known = language === 'en' ? english : ((await import('./locales.js')).locales[language] ?? english);
    if (locale !== this.#locale) return;
    this.#strings = { ...known, ...this.#custom };
    const dir = /^(ar|fa|he|ur)\b/.test(locale) ? 'rtl' : 'ltr';
    for (const element of [this.#ui.bell, this.#ui.panel, this.#ui.status]) {
      Object.assign(element, { dir, lang: locale });
    }
    this.#relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' });
    this.#round++;
    this.#render();
  }

  #findLocale() {
    const page = /** @type {HTMLElement | null} */ (this.closest('[lang]'))?.lang;
    try {
      return Intl.getCanonicalLocales((this.getAttribute('locale') || page || navigator.language).replace('_', '-'))[0];
    } catch {
      // Pages with an invalid `lang` exist.
      return 'en';
    }
  }

  /** @param {keyof import('./strings.js').Strings} name @param {number} [n] */
  #say(name, n = 0) {
    return this.#strings[name].replace('{n}', n.toLocaleString(this.#locale));
  }

  #place() {
    const { bell, panel } = this.#ui;
    const isInline = this.getAttribute('placement') === 'inline';
    bell.hidden = isInline;
    panel.popover = isInline ? null : 'auto';
    // An opening popover focuses the element with this attribute.
    panel.autofocus = !isInline;
    panel.setAttribute('role', isInline ? 'region' : 'dialog');
    this.#ui.close.hidden = isInline;
  }

  /** Moves the panel under the bell. */
  #move = () => {
    const { bell, panel } = this.#ui;
    if (!panel.popover || !panel.matches(':popover-open')) return;
    const { left, right, bottom } = bell.getBoundingClientRect();
    const isRtl = getComputedStyle(this).direction === 'rtl';
    const alignLeft = (this.getAttribute('placement') === 'start') !== isRtl;
    const x = alignLeft ? left : right - panel.offsetWidth;
    panel.style.setProperty(
      '--_x',
      `${Math.max(8, Math.min(x, document.documentElement.clientWidth - panel.offsetWidth - 8))}px`,
    );
    panel.style.setProperty('--_y', `${Math.max(8, bottom + 6)}px`);
  };

  // Elements

  #build() {
    /** @param {string} className @param {() => void} onclick @param {Record<string, unknown>} [set] @param {Node[]} children */
    const button = (className, onclick, set = {}, ...children) =>
      h('button', { type: 'button', className, onclick, ...set }, ...children);
    /** @param {string} name @param {Node[]} children */
    const slot = (name, ...children) => h('slot', { name }, ...children);

    const badge = h('span', { className: 'badge', hidden: true });
    const bell = h(
      'button',
      { type: 'button', className: 'bell', 'aria-haspopup': 'dialog', 'aria-expanded': 'false' },
      slot('bell', icon('bell')),
      badge,
    );
    const title = h('h2', { id: 'title' });
    const back = button('back icon', () => this.#show('list'), { hidden: true }, icon('back'));
    const settings = button('settings icon', () => this.#show('settings'), {}, icon('settings'));
    const close = button('close icon', () => this.hide(), {}, icon('close'));
    const tabs = ['all', 'unread'].map((name) =>
      button(`tab-${name}`, () => this.#select(name), { role: 'tab', id: name, 'aria-controls': 'list' }),
    );
    const readAll = button('all-read', () => this.#inbox?.readAll());
    const pill = button('pill', () => this.#catchUp(), { hidden: true });
    const list = h('div');
    const more = h('div', { className: 'more' });
    const empty = h('p');
    const retry = button('retry solid', () => void this.#inbox?.refresh());
    const nothing = slot('empty', icon('bell'), empty);
    const progress = h('p');
    const state = h('div', { className: 'state', hidden: true }, nothing, progress, retry);
    const scroll = h('div', { className: 'scroll', role: 'tabpanel', id: 'list' }, list, more, state);
    const tablist = h('div', { role: 'tablist' }, ...tabs);
    const main = h(
      'div',
      { className: 'list' },
      h('div', { className: 'tabs' }, tablist, readAll),
      h('div', { className: 'list' }, pill, scroll),
    );
    const preferences = h('div', { className: 'scroll preferences', hidden: true });
    const note = h('div', { className: 'note line', hidden: true });
    const undo = h(
      'div',
      { className: 'undo line', hidden: true },
      h('span'),
      button('undo-button', () => this.#undo()),
    );
    const push = h('div', { className: 'push line', hidden: true });
    const panel = h(
      'div',
      { className: 'panel', tabIndex: -1, 'aria-labelledby': 'title' },
      slot('header', h('div', { className: 'bar' }, back, title, settings, close)),
      main,
      preferences,
      note,
      undo,
      push,
      slot('footer'),
    );
    bell.popoverTargetElement = panel;
    const status = h('div', { className: 'quiet', role: 'status' });

    panel.addEventListener('toggle', (event) => this.#toggled(/** @type {ToggleEvent} */ (event).newState === 'open'));
    panel.addEventListener('keydown', (event) => this.#key(event));
    list.addEventListener('click', (event) => this.#click(event));
    list.addEventListener('focusin', (event) => this.#focus(this.#idOf(event.target)));
    list.addEventListener('error', ({ target }) => target instanceof HTMLElement && (target.hidden = true), true);
    return {
      bell,
      badge,
      panel,
      title,
      back,
      settings,
      close,
      tabs,
      readAll,
      pill,
      list,
      more,
      nothing,
      empty,
      progress,
      retry,
      state,
      scroll,
      main,
      preferences,
      note,
      undo,
      push,
      status,
    };
  }

  // Rendering

  #render() {
    if (!this.isConnected) return;
    const ui = this.#ui;
    const snapshot = this.#inbox?.getSnapshot();
    const all = (snapshot?.items ?? []).filter(({ id }) => id !== this.#removal?.item.id);
    const unreadCount = (snapshot?.unreadCount ?? 0) - Number(this.#removal?.item.clickedAt === null);

    this.#announce(all);
    const newest = all[0]?.id ?? 0;
    if (!this.#isReading() || !this.#top) this.#top = newest;
    const waiting = all.filter(({ id }) => id > this.#top).length;
    // An item that is read in the tab "unread" stays until the tab is selected again.
    this.#shown = all.filter(
      (item) => item.id <= this.#top && (this.#tab === 'all' || !item.clickedAt || this.#rows.has(item.id)),
    );
    this.#renderRows();
    if (!this.#rows.has(this.#current)) this.#focus(this.#shown[0]?.id);

    ui.badge.hidden = unreadCount <= 0;
    ui.badge.textContent = unreadCount > 99 ? '99+' : String(unreadCount);
    const name = this.#say('title');
    this.#label(ui.bell, unreadCount > 0 ? `${name}, ${this.#say('unreadCount', unreadCount)}` : name);
    ui.title.textContent = this.#view === 'list' ? name : this.#say('settings');
    this.#label(ui.back, this.#say('back'));
    this.#label(ui.settings, this.#say('settings'));
    this.#label(ui.close, this.#say('close'));
    ui.tabs[0].textContent = this.#say('all');
    ui.tabs[1].textContent = this.#say('unread');
    for (const tab of ui.tabs) {
      tab.setAttribute('aria-selected', String(tab.id === this.#tab));
      tab.tabIndex = tab.id === this.#tab ? 0 : -1;
    }
    ui.scroll.setAttribute('aria-labelledby', this.#tab);
    ui.readAll.textContent = this.#say('readAll');
    ui.readAll.hidden = unreadCount <= 0;
    ui.pill.hidden = !waiting;
    ui.pill.textContent = this.#say('newCount', waiting);

    const isFailed = !snapshot?.loaded && (snapshot?.error || snapshot?.connection === 'offline');
    ui.more.hidden = !this.#hasMore();
    ui.list.hidden = !this.#shown.length;
    ui.state.hidden = this.#shown.length > 0 || this.#hasMore();
    ui.nothing.hidden = !snapshot?.loaded;
    ui.empty.textContent = this.#say(this.#tab === 'all' ? 'empty' : 'caughtUp');
    ui.progress.hidden = !ui.nothing.hidden;
    ui.progress.textContent = this.#say(isFailed ? 'error' : 'loading');
    ui.retry.hidden = !isFailed;
    ui.retry.textContent = this.#say('retry');

    const error = snapshot?.error;
    if (error !== this.#error && error?.status && snapshot?.loaded) this.#fail();
    this.#error = error;
    const isOffline = snapshot?.connection === 'offline' && snapshot.loaded;
    ui.note.hidden = !isOffline && !this.#failTimer;
    ui.note.textContent = this.#say(isOffline ? (error?.status ? 'error' : 'offline') : 'failed');
    ui.undo.hidden = !this.#removal;
    ui.undo.children[0].textContent = this.#say('removed');
    ui.undo.children[1].textContent = this.#say('undo');
    this.#renderPush();
  }

  #renderRows() {
    const { list } = this.#ui;
    const ids = new Set(this.#shown.map(({ id }) => id));
    for (const [id, { row }] of this.#rows) {
      if (ids.has(id)) continue;
      if (row.contains(/** @type {ShadowRoot} */ (this.shadowRoot).activeElement)) this.#ui.panel.focus();
      const group = row.parentElement;
      row.remove();
      if (!group?.childElementCount) group?.remove();
      this.#rows.delete(id);
    }
    /** @type {HTMLElement | undefined} */
    let previous;
    for (const item of this.#shown) {
      let row = this.#rows.get(item.id);
      if (!row) {
        row = createRow(this.querySelector(':scope > template[slot=item]'));
        row.row.dataset.id = String(item.id);
        this.#rows.set(item.id, row);
        // Items never change their order, so only new rows are placed.
        const group = previous ? previous.parentElement : list.firstElementChild;
        if (!group || (group.childElementCount >= GROUP && !previous?.nextSibling)) {
          const added = h('ul', { className: 'items' }, row.row);
          if (previous) group?.after(added);
          else list.prepend(added);
        } else if (previous) previous.after(row.row);
        else group.prepend(row.row);
      }
      this.#fill(row, item);
      previous = row.row;
    }
  }

  /**
   * Updates the elements of an item in place, so that focus and scroll position stay.
   * @param {Row} row @param {Notification} item
   */
  #fill(row, item) {
    if (item === row.item && this.#round === row.round) return;
    if (!item.seenAt) this.#observers[0]?.observe(row.row);
    else if (!row.item?.seenAt) this.#observers[0]?.unobserve(row.row);
    [row.item, row.round] = [item, this.#round];
    const link = safeLink(item.url);
    row.row.toggleAttribute('data-unread', !item.clickedAt);
    row.row.toggleAttribute('data-unseen', !item.seenAt);
    row.title.textContent = item.title ?? '';
    row.message.textContent = item.message ?? '';
    for (const element of row.open.querySelectorAll('[data-text]')) {
      element.textContent = text(item[/** @type {'title'} */ (element.getAttribute('data-text'))]);
    }
    row.message.hidden = !item.message;
    row.meta.textContent = [this.#age(item.createdAt), item.category?.name].filter(Boolean).join(' · ');
    row.meta.title = new Date(item.createdAt).toLocaleString(this.#locale);
    if (link) row.open.href = link;
    else row.open.removeAttribute('href');
    row.open.setAttribute('role', link ? 'link' : 'button');
    const source = /^(https?:|\/|data:image\/)/.test(item.icon ?? '') ? item.icon : '';
    row.image.hidden = !source;
    if (source && row.image.getAttribute('src') !== source) row.image.src = source;
    this.#label(row.toggle, this.#say(item.clickedAt ? 'markUnread' : 'markRead'));
    row.toggle.replaceChildren(icon(item.clickedAt ? 'unread' : 'read'));
    this.#label(row.remove, this.#say('remove'));
    const focused = [...row.blocks.children].findIndex((block) => block.matches(':focus'));
    row.blocks.replaceChildren(...(item.blocks ?? []).flatMap((block) => this.#block(block, item)));
    /** @type {HTMLElement | undefined} */ (row.blocks.children[focused])?.focus();
    row.blocks.hidden = !row.blocks.children.length;
    this.#reach(row, item.id === this.#current);
  }

  /** @param {import('../client/types.js').Block} block @param {Notification} item @returns {HTMLElement[]} */
  #block(block, item) {
    const label = text(block.label) || text(block.text);
    if (!label) return [];
    if (block.type === 'text' || block.type === 'paragraph') return [h('p', { className: 'text', dir: 'auto' }, label)];
    if (block.type !== 'button') return [];
    const link = safeLink(block.url);
    const action = text(block.action) || text(block.value);
    const button = link ? h('a', { href: link }, label) : h('button', { type: 'button' }, label);
    button.setAttribute('part', 'action');
    if (!link) button.setAttribute('aria-pressed', String(Boolean(action) && item.state === action));
    button.onclick = (event) => {
      event.stopPropagation();
      const detail = { notification: item, action: action || label, block };
      if (!this.#dispatch('tidings-action', detail)) return event.preventDefault();
      if (!item.clickedAt) this.#inbox?.read(item.id);
      if (action) this.#inbox?.setState(item.id, action);
    };
    return [button];
  }

  /** Includes the buttons of an item in the Tab order, or excludes them. @param {Row} row @param {boolean} isCurrent */
  #reach({ row }, isCurrent) {
    for (const element of /** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll('a, button'))) {
      element.tabIndex = isCurrent ? 0 : -1;
    }
  }

  /** @param {HTMLElement} element @param {string} label */
  #label(element, label) {
    element.setAttribute('aria-label', label);
    if (element !== this.#ui.bell) element.title = label;
  }

  /** @param {string} time */
  #age(time) {
    const seconds = (Date.parse(time) - Date.now()) / 1000;
    /** @type {[Intl.RelativeTimeFormatUnit, number][]} */
    const units = [
      ['day', 86_400],
      ['hour', 3_600],
      ['minute', 60],
    ];
    if (seconds < -7 * 86_400) return new Date(time).toLocaleDateString(this.#locale, { dateStyle: 'medium' });
    const [unit, length] = units.find(([, length]) => -seconds >= length) ?? ['second', Infinity];
    return this.#relative.format(Math.ceil(seconds / length) || 0, unit);
  }

  /** Announces new items, at most once in 10 s. @param {readonly Notification[]} items */
  #announce(items) {
    const newest = items[0]?.id ?? 0;
    const last = (this.#announced ??= this.#inbox?.getSnapshot().loaded ? newest : undefined);
    if (last === undefined || newest <= last || this.#announceTimer) return;
    this.#announced = newest;
    const added = items.filter(({ id }) => id > last).length;
    this.#ui.status.textContent = `${this.#say('title')}: ${this.#say('newCount', added)}`;
    this.#announceTimer = setTimeout(() => {
      this.#announceTimer = 0;
      this.#ui.status.textContent = '';
      this.#render();
    }, QUIET);
  }

  // Push and preferences

  #renderPush() {
    const { push } = this.#ui;
    const snapshot = this.#inbox?.getSnapshot();
    const state = snapshot?.push ?? 'unsupported';
    const isSettings = this.#view === 'settings';
    const isLater = Date.now() - Number(remember(LATER_KEY)) < LATER;
    const isOffered = ['default', 'install'].includes(state) && !isLater && (snapshot?.items.length ?? 0) > 1;
    push.hidden = isSettings ? state === 'unsupported' : !isOffered && !(state === 'denied' && push.dataset.asked);
    const shown = `${state} ${this.#view} ${this.#say('push')}`;
    if (push.dataset.shown === shown) return;
    push.dataset.shown = shown;
    const names = /** @type {const} */ ({ denied: 'denied', install: 'install', subscribed: 'subscribed' });
    const line = h('span', {}, this.#say(names[/** @type {'denied'} */ (state)] ?? 'push'));
    /** @param {'on' | 'off' | 'later'} name @param {() => unknown} onclick */
    const button = (name, onclick) =>
      h(
        'button',
        { type: 'button', className: name === 'on' ? 'push-on solid' : `push-${name}`, onclick },
        this.#say(name),
      );
    const on = () => {
      push.dataset.asked = '1';
      this.#inbox?.push.subscribe().then(
        () => this.#render(),
        () => this.#fail(),
      );
    };
    push.replaceChildren(line);
    if (state === 'default' || state === 'granted') push.append(button('on', on));
    if (state === 'subscribed') {
      push.append(button('off', () => this.#inbox?.push.unsubscribe().catch(() => this.#fail())));
    }
    if (!isSettings && state !== 'denied') {
      push.append(
        button('later', () => {
          remember(LATER_KEY, String(Date.now()));
          this.#render();
        }),
      );
    }
  }

  /** Shows for a while that a change failed. */
  #fail() {
    clearTimeout(this.#failTimer);
    this.#failTimer = setTimeout(() => {
      this.#failTimer = 0;
      this.#render();
    }, QUIET);
    this.#ui.note.hidden = false;
    this.#ui.note.textContent = this.#say('failed');
  }

  /** @param {'list' | 'settings'} view */
  #show(view) {
    const { main, preferences, back, settings } = this.#ui;
    this.#view = view;
    main.hidden = settings.hidden = view !== 'list';
    preferences.hidden = back.hidden = view === 'list';
    this.#render();
    (view === 'list' ? settings : back).focus();
    if (view === 'settings') void this.#renderPreferences();
  }

  async #renderPreferences() {
    const { preferences } = this.#ui;
    const inbox = this.#inbox;
    preferences.replaceChildren(h('p', { className: 'state' }, this.#say('loading')));
    const list = await inbox?.preferences.list().catch(() => undefined);
    if (!list) return preferences.replaceChildren(h('p', { className: 'state' }, this.#say('error')));
    preferences.replaceChildren(
      ...list.map(({ id, name, channels }) =>
        h(
          'fieldset',
          { className: 'category' },
          h('legend', {}, name),
          ...channels.map(({ channel, enabled }) => {
            const onchange = () =>
              inbox?.preferences.set(id, channel, box.checked).catch(() => {
                box.checked = !box.checked;
                this.#fail();
              });
            const box = h('input', {
              type: 'checkbox',
              checked: enabled,
              onchange,
              className: 'preference',
              'data-category': id,
              'data-channel': channel,
            });
            return h('label', {}, box, this.#strings[/** @type {'email'} */ (channel)] ?? channel);
          }),
        ),
      ),
    );
  }

  // Actions

  /** @param {string} type @param {unknown} detail @returns {boolean} False if a listener prevented the default. */
  #dispatch(type, detail) {
    return this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true, composed: true, cancelable: true }));
  }

  /** @param {EventTarget | null} target */
  #idOf(target) {
    return Number(
      /** @type {HTMLElement | null} */ (/** @type {Element | null} */ (target)?.closest('li'))?.dataset.id,
    );
  }

  /** @param {number} id */
  #item(id) {
    return this.#shown.find((item) => item.id === id);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const item = this.#item(this.#idOf(event.target));
    const target = /** @type {Element} */ (event.target);
    if (!item) return;
    if (target.closest('.toggle')) this.#toggle(item);
    else if (target.closest('.remove')) this.#remove(item);
    else if (target.closest('.open')) {
      if (!item.clickedAt) this.#inbox?.read(item.id);
      // Clicks with these keys open a new tab or window, which the page cannot replace.
      const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
      if (!this.#dispatch('tidings-open', { notification: item }) && isPlain) event.preventDefault();
    }
  }

  /** @param {Notification} item */
  #toggle(item) {
    if (item.clickedAt) this.#inbox?.unread(item.id);
    else this.#inbox?.read(item.id);
  }

  /** Hides an item, and deletes it unless the user undoes this. @param {Notification} item */
  #remove(item) {
    const at = this.#shown.indexOf(item);
    const hasFocus = this.#rows.get(item.id)?.row.matches(':focus-within');
    this.#commit();
    this.#removal = { item, timer: setTimeout(this.#commit, UNDO) };
    const next = this.#shown[at + 1] ?? this.#shown[at - 1];
    this.#focus(next?.id);
    if (hasFocus && next) this.#rows.get(next.id)?.open.focus();
    this.#render();
    this.#ui.status.textContent = this.#say('removed');
  }

  /** Carries out the deletion that can be undone. */
  #commit = () => {
    if (!this.#removal) return;
    const { item, timer } = this.#removal;
    clearTimeout(timer);
    this.#removal = undefined;
    this.#inbox?.remove(item.id);
    this.#render();
  };

  #undo() {
    if (!this.#removal) return;
    const { item, timer } = this.#removal;
    clearTimeout(timer);
    this.#removal = undefined;
    this.#top = Math.max(this.#top, item.id);
    this.#render();
    this.#rows.get(item.id)?.open.focus();
  }

  /** Makes an item the one that Tab reaches. @param {number | undefined} id */
  #focus(id) {
    if (!id) return;
    const [old, next] = [this.#rows.get(this.#current), this.#rows.get(id)];
    this.#current = id;
    if (old) this.#reach(old, false);
    if (next) this.#reach(next, true);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
    const { key } = event;
    if (key === 'Tab') return this.#trap(event, target);
    if (target.role === 'tab') {
      if (key !== 'ArrowLeft' && key !== 'ArrowRight') return;
      this.#select(this.#tab === 'all' ? 'unread' : 'all');
      return this.#ui.tabs.find(({ id }) => id === this.#tab)?.focus();
    }
    const id = this.#idOf(target);
    const isPanel = target === this.#ui.panel;
    if (this.#view !== 'list' || (!id && !isPanel)) return;
    const item = this.#item(id);
    const at = item ? this.#shown.indexOf(item) : -1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.#shown.length - 1 }[key];
    if (to !== undefined) {
      const next = this.#shown[Math.max(0, Math.min(to, this.#shown.length - 1))];
      if (next) this.#rows.get(next.id)?.open.focus();
    } else if (item && key.toLowerCase() === 'r') this.#toggle(item);
    else if (item && key === 'Delete') this.#remove(item);
    else if ((key === 'Enter' || key === ' ') && target.matches('a.open:not([href])')) target.click();
    else return;
    event.preventDefault();
  }

  /** Keeps the focus in the dialog. @param {KeyboardEvent} event @param {HTMLElement} target */
  #trap(event, target) {
    if (!this.#ui.panel.popover) return;
    const stops = /** @type {HTMLElement[]} */ ([...this.#ui.panel.querySelectorAll('a, button, input, slot')])
      .flatMap((element) =>
        element instanceof HTMLSlotElement
          ? element.assignedElements().flatMap((own) => [own, ...own.querySelectorAll('*')])
          : element,
      )
      .filter((element) => element instanceof HTMLElement && element.tabIndex >= 0 && element.checkVisibility());
    const edge = event.shiftKey ? stops[0] : stops.at(-1);
    if (target !== edge && !(event.shiftKey && target === this.#ui.panel)) return;
    event.preventDefault();
    /** @type {HTMLElement | undefined} */ (event.shiftKey ? stops.at(-1) : stops[0])?.focus();
  }

  /** @param {string} tab */
  #select(tab) {
    this.#tab = tab;
    this.#clear();
    this.#ui.scroll.scrollTop = 0;
    this.#render();
  }

  #catchUp() {
    this.#top = 0;
    this.#ui.scroll.scrollTop = 0;
    this.#render();
    this.#rows.get(this.#shown[0]?.id)?.open.focus();
  }

  /** @param {boolean} isOpen */
  #toggled(isOpen) {
    this.#ui.bell.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) {
      this.#move();
    } else {
      if (this.#view !== 'list') this.#show('list');
      this.#top = 0;
      if (this.#tab === 'unread') this.#clear();
      // The browser returns the focus only if the panel opened by the bell and still has it.
      if (this.matches(':focus-within') || document.activeElement === document.body) this.#ui.bell.focus();
    }
    this.#render();
  }

  /** Returns true if new items must not move the list. */
  #isReading() {
    const { panel, scroll, list } = this.#ui;
    if (panel.popover && !panel.matches(':popover-open')) return false;
    return scroll.scrollTop > 0 || list.getBoundingClientRect().top < 0 || list.matches(':hover, :focus-within');
  }

  #hasMore() {
    const snapshot = this.#inbox?.getSnapshot();
    if (!snapshot?.hasMore || snapshot.error?.status) return false;
    return this.#tab === 'all' || snapshot.items.filter(({ clickedAt }) => !clickedAt).length < snapshot.unreadCount;
  }

  async #more() {
    const { more } = this.#ui;
    if (this.#isLoading || !this.#hasMore()) return;
    this.#isLoading = true;
    await this.#inbox?.loadMore();
    if (this.#inbox?.getSnapshot().error) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    this.#isLoading = false;
    // The observer reports only changes, and the end may still be visible.
    this.#observers[1]?.unobserve(more);
    this.#observers[1]?.observe(more);
  }

  /** Marks items as seen that stay half visible. @param {IntersectionObserverEntry} entry */
  #see({ target, isIntersecting }) {
    clearTimeout(this.#timers.get(target));
    if (!isIntersecting) return;
    const check = () => {
      const item = this.#item(this.#idOf(target));
      if (!target.isConnected || !item || item.seenAt) return;
      if (document.hidden) return void this.#timers.set(target, setTimeout(check, SEEN));
      if (!this.#seen.size) {
        setTimeout(() => {
          this.#inbox?.seen([...this.#seen]);
          this.#seen.clear();
        }, 100);
      }
      this.#seen.add(item.id);
    };
    this.#timers.set(target, setTimeout(check, SEEN));
  }
}

if (!customElements.get('tidings-inbox')) customElements.define('tidings-inbox', TidingsInbox);
