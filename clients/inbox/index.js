// <tidings-inbox>: bell, list, preferences and push opt-in over @tidings/client. README.md describes it.
// This module contains the bell. It imports the panel when the first page has arrived or the panel opens.
// SPDX-License-Identifier: Apache-2.0
/** @import { Inbox } from '../client/types.js' */
/** @import { Host, Shell, Strings, Text } from './types.js' */
import { UNLOADED, place } from '../client/box.js';
import { createInbox } from '../client/index.js';
import { BELL, h, icon } from './dom.js';
import { bell } from './strings.js';
import { css } from './style.js';

/** Milliseconds between two messages to screen readers. */
const QUIET = 10_000;
/** Attributes with options of the client. */
const OPTIONS = ['url', 'api-key', 'user', 'service-worker', 'header-prefix'];

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

/** @implements {Host} */
export class TidingsInbox extends HTMLElement {
  static observedAttributes = [...OPTIONS, 'categories', 'placement', 'locale'];

  /** @type {Inbox | undefined} */
  #inbox;
  /** Attributes from which the element created its inbox; empty if the page set the inbox and must stop it. */
  #origin = '';
  /** @type {(() => void) | undefined} */
  #unsubscribe;
  /** @type {(() => string | Promise<string>) | undefined} */
  #getToken;
  /** @type {Partial<Strings>} */
  #custom = {};
  /** @type {Text} */
  #text = {
    strings: {},
    english: { ...bell },
    locale: 'en',
    say: (name, n = 0) => {
      const { strings, english, locale } = this.#text;
      return (strings[name] ?? english[name] ?? '').replace('{n}', n.toLocaleString(locale));
    },
  };
  /** Ids of the items at the last announcement; undefined before the first page. @type {Set<number> | undefined} */
  #announced;
  /** Place of the oldest loaded item. */
  #oldest = UNLOADED;
  #announceTimer = 0;
  #clock = 0;
  /** Content of the panel. @type {import('./panel.js').Panel | undefined} */
  #content;
  #isLoading = false;
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
    const self = /** @type {any} */ (this);
    for (const name of ['inbox', 'getToken', 'strings'].filter((name) => Object.hasOwn(self, name))) {
      const value = self[name];
      delete self[name];
      self[name] = value;
    }
    this.#place();
    void this.#translate();
    this.#connect();
    addEventListener('resize', this.#move);
    addEventListener('scroll', this.#move, { passive: true, capture: true });
    this.#clock = setInterval(() => this.#content?.renew(), 60_000);
    this.#content?.connect();
    this.#watch();
  }

  /** @private */
  disconnectedCallback() {
    clearInterval(this.#clock);
    this.#content?.disconnect();
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
    if (this.#ui.panel.popover && !this.#isOpen()) this.#ui.panel.showPopover();
  }

  /** Closes the panel. */
  hide() {
    if (this.#isOpen()) this.#ui.panel.hidePopover();
  }

  #isOpen() {
    return this.#ui.panel.matches(':popover-open');
  }

  /** Creates an inbox from the attributes, unless it exists or the page set one. */
  #connect() {
    if (!this.isConnected || (this.#inbox && !this.#origin)) return;
    const values = OPTIONS.map((name) => this.getAttribute(name) ?? undefined);
    const [url, apiKey, user, serviceWorker, headerPrefix] = values;
    const categories = this.getAttribute('categories')?.match(/[^\s,]+/g) ?? [];
    const getToken = this.#getToken && (() => this.#getToken?.() ?? '');
    const origin = JSON.stringify([values, categories, !getToken]);
    if (origin === this.#origin) return;
    if (url === undefined || !apiKey || !user) this.#use();
    else this.#use(createInbox({ url, apiKey, user, serviceWorker, headerPrefix, categories, getToken }), origin);
  }

  /** @param {Inbox} [inbox] @param {string} [origin] */
  #use(inbox, origin = '') {
    this.#content?.reset();
    if (this.#origin) this.#inbox?.stop();
    this.#inbox = inbox;
    this.#origin = origin;
    this.#announced = undefined;
    this.#oldest = UNLOADED;
    this.#watch();
    inbox?.start();
  }

  /** Follows the inbox while the element is in the page. */
  #watch() {
    this.#unsubscribe?.();
    this.#unsubscribe = this.isConnected ? this.#inbox?.subscribe(() => this.render()) : undefined;
    this.render();
  }

  async #translate() {
    const locale = (this.#text.locale = this.#findLocale());
    const language = locale.split('-')[0];
    const known = language === 'en' ? {} : (await import('./locales.js')).locales[language];
    if (locale !== this.#text.locale) return;
    this.#text.strings = { ...known, ...this.#custom };
    const dir = /^(ar|fa|he|ur)$/.test(language) ? 'rtl' : 'ltr';
    for (const element of [this.#ui.bell, this.#ui.panel, this.#ui.status]) {
      Object.assign(element, { dir, lang: locale });
    }
    this.#content?.renew();
    this.render();
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

  #place() {
    const { bell, panel } = this.#ui;
    const isInline = this.getAttribute('placement') === 'inline';
    bell.hidden = isInline;
    panel.popover = isInline ? null : 'auto';
    // An opening popover focuses the element with this attribute.
    panel.autofocus = !isInline;
    panel.setAttribute('role', isInline ? 'region' : 'dialog');
    this.render();
  }

  /** Moves the panel under the bell. */
  #move = () => {
    const { bell, panel } = this.#ui;
    if (!this.#isOpen()) return;
    const { left, right, bottom } = bell.getBoundingClientRect();
    const isRtl = getComputedStyle(this).direction === 'rtl';
    const alignLeft = (this.getAttribute('placement') === 'start') !== isRtl;
    const most = document.documentElement.clientWidth - panel.offsetWidth - 8;
    const x = Math.max(8, Math.min(alignLeft ? left : right - panel.offsetWidth, most));
    panel.style.setProperty('--_x', `${x}px`);
    panel.style.setProperty('--_y', `${Math.max(8, bottom + 6)}px`);
  };

  /** @returns {Shell} */
  #build() {
    const badge = h('span', { className: 'badge', hidden: true });
    const bell = h(
      'button',
      { type: 'button', className: 'bell', 'aria-haspopup': 'dialog', 'aria-expanded': 'false' },
      h('slot', { name: 'bell' }, icon(BELL)),
      badge,
    );
    const panel = h('div', { className: 'panel', tabIndex: -1, 'aria-labelledby': 'title' });
    bell.popoverTargetElement = panel;
    panel.addEventListener('toggle', () => this.#toggled());
    return { bell, badge, panel, status: h('div', { className: 'quiet', role: 'status' }) };
  }

  #toggled() {
    const isOpen = this.#isOpen();
    this.#ui.bell.setAttribute('aria-expanded', String(isOpen));
    this.#move();
    this.#content?.toggled(isOpen);
    // The browser returns the focus only if the panel opened by the bell and still has it.
    if (!isOpen && (this.matches(':focus-within') || document.activeElement === document.body)) this.#ui.bell.focus();
    this.render();
  }

  /** Loads the content of the panel. If this fails, the next opening retries. */
  async #load() {
    if (this.#isLoading) return;
    this.#isLoading = true;
    const loaded = await import('./panel.js').catch(() => undefined);
    this.#isLoading = false;
    if (!loaded || this.#content) return;
    this.#content = new loaded.Panel(this, this.#ui, this.#text);
    if (this.isConnected) this.#content.connect();
    this.render();
  }

  /** Renders the inbox. */
  render() {
    if (!this.isConnected) return;
    const { bell, badge, panel } = this.#ui;
    const snapshot = this.#inbox?.getSnapshot();
    if (!this.#content && (snapshot?.loaded || !panel.popover || this.#isOpen())) void this.#load();
    const unread = (snapshot?.unreadCount ?? 0) - (this.#content?.hiddenUnread ?? 0);
    badge.hidden = unread <= 0;
    badge.textContent = unread > 99 ? '99+' : String(unread);
    const { say } = this.#text;
    bell.ariaLabel = unread > 0 ? `${say('title')}, ${say('unreadCount', unread)}` : say('title');
    this.#announce();
    this.#content?.render();
  }

  /** Announces unread items that were added or have returned, at most once in 10 s. */
  #announce() {
    const { items = [], loaded = false, hasMore = false } = this.#inbox?.getSnapshot() ?? {};
    if (!loaded) return;
    const ids = new Set(items.map(({ id }) => id));
    const known = (this.#announced = new Set([...(this.#announced ?? ids)].filter((id) => ids.has(id))));
    if (this.#announceTimer) return;
    // Older items are further pages.
    const oldest = this.#oldest;
    this.#announced = ids;
    this.#oldest = !hasMore ? '' : items.length ? place(items[items.length - 1]) : oldest;
    const count = items.filter((item) => place(item) >= oldest && !item.clickedAt && !known.has(item.id)).length;
    if (!count) return;
    const { say } = this.#text;
    this.#ui.status.textContent = `${say('title')}: ${say('newCount', count)}`;
    this.#announceTimer = setTimeout(() => {
      this.#announceTimer = 0;
      this.#ui.status.textContent = '';
      this.#announce();
    }, QUIET);
  }
}

if (!customElements.get('tidings-inbox')) customElements.define('tidings-inbox', TidingsInbox);
