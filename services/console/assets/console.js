// Pages work without this script. It shows times in local time, keeps lists fresh, replaces parts of pages, and adds shortcuts and copy
// buttons. `editor.js` adds the preview of a text.
(() => {
  'use strict';
  const units = [[60, 'second'], [60, 'minute'], [24, 'hour'], [7, 'day']];
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  const short = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
  const clock = new Intl.DateTimeFormat(undefined, {
    day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
  });
  const refusals = { 401: 'Your session has ended: sign in again in another tab.', 403: 'Your role does not allow this any more.', 413: 'The text is too large.' };

  const spoken = (at) => {
    let age = (at - Date.now()) / 1000;
    // A clock that runs behind the server's must not show the past as the future.
    if (age > 0 && age < 60) age = 0;
    for (const [size, unit] of units) {
      if (Math.abs(age) < size) return relative.format(Math.round(age), unit);
      age /= size;
    }
    return short.format(at);
  };

  const showTimes = (root) => {
    for (const time of root.querySelectorAll('time[datetime]')) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = `${full.format(at)} · ${time.dateTime}`;
      time.textContent = 'clock' in time.dataset ? clock.format(at) : spoken(at);
    }
  };

  const addCopies = (root) => {
    for (const text of root.querySelectorAll('[data-copy]')) {
      const button = Object.assign(document.createElement('button'), { type: 'button', className: 'copy', textContent: 'Copy' });
      button.addEventListener('click', async () => {
        if (navigator.clipboard) {
          await navigator.clipboard.writeText(text.textContent);
        } else {
          getSelection().selectAllChildren(text);
          document.execCommand('copy');
        }
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
      });
      text.after(button);
    }
  };

  // A list that is being read or used stands still.
  const isBusy = (live) => document.hidden || live.matches(':hover') || live.contains(document.activeElement)
    || scrollY > 40 || document.querySelector('details[open], dialog[open]') !== null
    || !getSelection().isCollapsed;

  const pill = Object.assign(document.createElement('button'), { type: 'button', className: 'pill' });

  // Shows other content in a part of the page. The focus stays on the element with the same id.
  const replace = (part, fresh) => {
    const focused = document.activeElement.id;
    pill.remove();
    showTimes(fresh);
    part.replaceChildren(...fresh.childNodes);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  // Asks the server for a part. It answers with the part, or with the whole page.
  const fetchPart = async (url, id, options) => {
    const answer = await fetch(url, { headers: { 'X-Part': id }, redirect: 'error', ...options });
    if (!answer.ok) throw new Error(refusals[answer.status]);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    return page.getElementById(id) ?? page.body;
  };

  // Rows that the list would gain; the pill says how many, and shows them when it is clicked.
  const announce = (live, fresh) => {
    const newer = [...fresh.querySelectorAll('tbody tr[id]')].filter((row) => !document.getElementById(row.id)).length;
    if (newer === 0) return;
    pill.textContent = `${newer}${newer === 50 ? '+' : ''} newer`;
    pill.onclick = () => {
      replace(live, fresh);
      scrollTo({ top: 0 });
      document.getElementById('main').focus({ preventScroll: true });
    };
    live.before(pill);
  };

  const isFirstPage = () => !/[?&](before|after)=/.test(location.search);
  const refresh = async (live) => {
    if (document.hidden || !isFirstPage()) return;
    const asked = location.href;
    const fresh = await fetchPart(asked, 'live');
    if (fresh.id !== 'live' || asked !== location.href) return;
    if (isBusy(live)) announce(live, fresh);
    else replace(live, fresh);
  };

  const live = document.getElementById('live');
  if (live) {
    // While the server cannot be reached, the page keeps what it shows; the next try follows.
    setInterval(() => refresh(live).catch(() => {}), Number(live.dataset.refresh) * 1000);
  }

  // Single keys can get in the way of speech input, so they can be switched off (WCAG 2.1.4).
  const SWITCH = 'tidings console shortcuts';
  const dialog = document.getElementById('keys');
  const opener = document.querySelector('[data-keys]');
  if (dialog) {
    const box = dialog.querySelector('input');
    box.checked = localStorage.getItem(SWITCH) !== 'off';
    box.addEventListener('change', () => localStorage.setItem(SWITCH, box.checked ? 'on' : 'off'));
    opener.hidden = false;
    opener.addEventListener('click', () => dialog.showModal());
  }

  const step = (by) => {
    const links = [...document.querySelectorAll('main tbody tr')].map((row) => row.querySelector('a[href]')).filter(Boolean);
    const at = links.findIndex((link) => link.closest('tr').contains(document.activeElement));
    const next = links[at < 0 && by < 0 ? links.length - 1 : at + by];
    if (next) next.focus();
  };

  // A link with `data-part` shows its page in that part of this one, and the back button returns.
  let visits = 0;
  const visit = async (url, id) => {
    const part = document.getElementById(id);
    const own = visits += 1;
    part.setAttribute('aria-busy', 'true');
    const fresh = await fetchPart(url, id).catch(() => null);
    if (own !== visits) return false;
    part.removeAttribute('aria-busy');
    if (fresh?.id !== id) { location.href = url; return false; }
    replace(part, fresh);
    return true;
  };
  const follow = async (link) => {
    const [url, id] = [link.href, link.dataset.part.slice(1)];
    if (!await visit(url, id)) return;
    history.replaceState({ part: id }, '');
    history.pushState({ part: id }, '', url);
    if (!document.getElementById(id).contains(document.activeElement)) {
      document.getElementById('main').focus({ preventScroll: true });
      scrollTo({ top: 0 });
    }
  };
  addEventListener('popstate', (event) => { if (event.state?.part) visit(location.href, event.state.part); });

  let prefix = false;
  const shortcut = (event) => {
    if (prefix) {
      prefix = false;
      document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
      return;
    }
    if (event.key === '/') {
      const search = document.querySelector('[data-key="/"]');
      if (search) { event.preventDefault(); search.focus(); }
    }
    if (event.key === '?' && dialog) dialog.showModal();
    if (event.key === 'j') step(1);
    if (event.key === 'k') step(-1);
    prefix = event.key === 'g';
  };

  addEventListener('keydown', (event) => {
    const field = event.target.closest('input, select, textarea, dialog');
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (field) {
      if (event.key === 'Escape' && field !== dialog) field.blur();
      return;
    }
    if (event.key === 'Escape') {
      for (const menu of document.querySelectorAll('details.menu[open]')) menu.open = false;
    }
    if (localStorage.getItem(SWITCH) !== 'off') shortcut(event);
  });

  addEventListener('click', (event) => {
    const link = event.target.closest('a[data-part]');
    if (link && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)) {
      event.preventDefault();
      follow(link);
    }
    for (const menu of document.querySelectorAll('details.menu[open]')) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  document.querySelector('.tabs [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  showTimes(document);
  addCopies(document);
  document.documentElement.classList.add('scripted');
  Object.assign(globalThis, { parts: { fetchPart, replace, refusals } });
  const zone = document.querySelector('[data-zone]');
  if (zone) zone.parentElement.firstChild.textContent = `Times are ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  setInterval(() => showTimes(document), 15000);
})();
