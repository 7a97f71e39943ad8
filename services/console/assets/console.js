// Pages work without this script. It shows times in local time, keeps lists fresh, and adds shortcuts and copy buttons.
(() => {
  'use strict';
  const units = [[60, 'second'], [60, 'minute'], [24, 'hour'], [7, 'day']];
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  const short = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

  const clock = new Intl.DateTimeFormat(undefined, {
    day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
  });

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
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'copy';
      button.textContent = 'Copy';
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

  const pill = document.createElement('button');
  pill.type = 'button';
  pill.className = 'pill';

  const replace = (live, fresh) => {
    pill.remove();
    showTimes(fresh);
    live.replaceChildren(...fresh.childNodes);
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

  const refresh = async (live) => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { redirect: 'error' });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const fresh = page.getElementById('live');
    if (!fresh) return;
    if (isBusy(live)) announce(live, fresh);
    else replace(live, fresh);
  };

  const live = document.getElementById('live');
  const isFirstPage = !/[?&](before|after)=/.test(location.search);
  if (live && isFirstPage) {
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

  // A form with `data-part` shows its answer in that part of the page. Answers that later input has overtaken are dropped.
  const follow = (form) => {
    let [round, timer] = [0, 0];
    const part = document.querySelector(form.dataset.part);
    const showFrame = () => {
      const button = part.querySelector('[data-auto]');
      if (button) form.requestSubmit(button);
    };
    const ask = async () => {
      const wanted = { method: 'POST', body: new URLSearchParams(new FormData(form)), headers: { 'X-Part': part.id }, redirect: 'error' };
      const answer = await fetch(form.action, wanted);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return new DOMParser().parseFromString(await answer.text(), 'text/html').body;
    };
    const render = async () => {
      clearTimeout(timer);
      round += 1;
      const own = round;
      part.setAttribute('aria-busy', 'true');
      const fresh = await ask().catch(() => null);
      if (own !== round) return;
      part.removeAttribute('aria-busy');
      const focused = document.activeElement.id;
      if (fresh) {
        showTimes(fresh);
        part.replaceChildren(...fresh.childNodes);
        showFrame();
      } else if (!part.querySelector('.outdated')) {
        const problem = document.createElement('p');
        problem.className = 'problem outdated';
        problem.setAttribute('role', 'alert');
        problem.textContent = 'The console did not answer, so this is an earlier state. Your input is still in the form.';
        part.prepend(problem);
      }
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    };
    form.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(render, 300);
    });
    form.addEventListener('submit', (event) => {
      if (event.submitter?.hasAttribute('formaction')) return;
      event.preventDefault();
      render();
    });
    showFrame();
  };

  let prefix = false;
  const shortcut = (event) => {
    if (prefix) {
      prefix = false;
      const tab = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (tab) tab.click();
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
    for (const menu of document.querySelectorAll('details.menu[open]')) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  document.querySelector('.tabs [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  showTimes(document);
  addCopies(document);
  document.documentElement.classList.add('scripted');
  document.querySelectorAll('form[data-part]').forEach(follow);
  const zone = document.querySelector('[data-zone]');
  if (zone) zone.parentElement.firstChild.textContent = `Times are ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  setInterval(() => showTimes(document), 15000);
})();
