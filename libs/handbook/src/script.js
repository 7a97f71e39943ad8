const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const element = (name, text = '') => Object.assign(document.createElement(name), { textContent: text });
document.documentElement.classList.add('js');

// Menu of narrow windows.
const menu = one('.menu');
const pages = one('#pages');
const setMenu = (isOpen) => {
  pages.classList.toggle('open', isOpen);
  menu.setAttribute('aria-expanded', String(isOpen));
};
menu.hidden = false;
menu.addEventListener('click', () => setMenu(!pages.classList.contains('open')));
pages.addEventListener('click', ({ target }) => target.closest('a') && setMenu(false));

// Copying.
for (const block of all('pre')) {
  const button = element('button', 'Copy');
  button.type = 'button';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  (block.parentElement.querySelector('figcaption') ?? block.parentElement).append(button);
}

// The reader's credentials in the examples. `tidings up` links to the page with credentials in the fragment, which browsers do not send.
const form = one('.yours');
if (form) {
  const fill = (name, value) => {
    for (const place of all(`var[data-is=${name}]`)) place.textContent = value || `$${name}`;
  };
  const stored = (name) => sessionStorage.getItem(`tidings-${name}`) ?? '';
  const given = new URLSearchParams(location.hash.slice(1));
  for (const input of form.querySelectorAll('input')) {
    const name = input.dataset.fills;
    if (given.has(name)) sessionStorage.setItem(`tidings-${name}`, given.get(name));
    input.value = stored(name);
    fill(name, input.value);
    input.addEventListener('input', () => {
      sessionStorage.setItem(`tidings-${name}`, input.value);
      fill(name, input.value);
    });
  }
  if (given.has('KEY')) history.replaceState(null, '', location.pathname);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.hidden = false;
  fill('ORIGIN', location.origin);
}

// The entry of the section that is on screen.
const links = new Map(all('.reference .pages a[href^="#"]').map((link) => [link.hash.slice(1), link]));
if (links.size > 0) {
  let current;
  const show = ({ target, isIntersecting }) => {
    const link = links.get(target.id);
    if (!isIntersecting || !link || link === current) return;
    current?.removeAttribute('aria-current');
    current = link;
    current.setAttribute('aria-current', 'true');
    const [box, inner] = [pages.getBoundingClientRect(), current.getBoundingClientRect()];
    if (inner.top < box.top || inner.bottom > box.bottom) pages.scrollTop += inner.top - box.top - box.height / 3;
  };
  const observer = new IntersectionObserver((entries) => entries.forEach(show), { rootMargin: '-25% 0px -70% 0px' });
  for (const section of all('section[id]')) observer.observe(section);
}

// Search.
const find = one('.find');
const field = find.querySelector('input');
const found = find.querySelector('.found');
const [status, list] = [found.querySelector('[role=status]'), found.querySelector('ul')];
const MOST = 12;
let loading;
const load = () => {
  loading ??= fetch('/docs/search.json').then((answer) => {
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
};
const score = ([heading, page, url, text], words) => {
  const [title, place, body] = [heading, `${page} ${url}`, text].map((part) => part.toLowerCase());
  let sum = 0;
  for (const word of words) {
    const points = (title.includes(word) ? 8 : 0) + (title.startsWith(word) ? 4 : 0) + (place.includes(word) ? 3 : 0) + (body.includes(word) ? 1 : 0);
    if (points === 0) return 0;
    sum += points;
  }
  return sum + (url.startsWith('/docs') ? 2 : 0);
};
const marked = (text, words) => {
  const parts = [];
  const lower = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    const hits = words.map((word) => [lower.indexOf(word, at), word]).filter(([place]) => place >= 0).sort(([a], [b]) => a - b);
    if (hits.length === 0) break;
    const [place, word] = hits[0];
    parts.push(text.slice(at, place), element('mark', text.slice(place, place + word.length)));
    at = place + word.length;
  }
  return [...parts, text.slice(at)];
};
const excerpt = (text, words) => {
  const first = Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0));
  const start = Number.isFinite(first) ? Math.max(0, first - 20) : 0;
  return `${start > 0 ? '…' : ''}${text.slice(start, start + 140)}${text.length > start + 140 ? '…' : ''}`;
};
const row = ([heading, page, url, text], words) => {
  const link = element('a');
  link.href = url;
  const title = element('b');
  title.append(...marked(heading, words));
  const about = element('small');
  about.append(page && text ? `${page} · ` : page, ...marked(excerpt(text, words), words));
  link.append(title, about);
  const item = element('li');
  item.append(link);
  return item;
};
const search = async () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  if (words.length === 0) return;
  try {
    const entries = await load();
    const hits = entries.map((entry) => [score(entry, words), entry]).filter(([points]) => points > 0);
    hits.sort(([a], [b]) => b - a);
    const count = hits.length > MOST ? `The first ${MOST} of ${hits.length} results` : `${hits.length} results`;
    status.textContent = hits.length > 1 ? count : hits.length === 1 ? '1 result' : 'Nothing found';
    list.replaceChildren(...hits.slice(0, MOST).map(([, entry]) => row(entry, words)));
  } catch {
    status.textContent = 'The search is not available. Try again.';
    list.replaceChildren();
  }
};
const close = () => { found.hidden = true; };
find.hidden = false;
field.addEventListener('focus', () => { load().catch(() => {}); });
field.addEventListener('input', search);
find.addEventListener('click', ({ target }) => target.closest('a') && close());
find.addEventListener('focusout', ({ relatedTarget }) => relatedTarget && !find.contains(relatedTarget) && close());
addEventListener('click', ({ target }) => find.contains(target) || close());
addEventListener('keydown', (event) => {
  const isTyping = event.target.matches?.('input, textarea, select');
  if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
  } else if (event.key === 'Escape') {
    if (pages.classList.contains('open')) {
      setMenu(false);
      menu.focus();
    }
    close();
  } else if (find.contains(event.target) && !found.hidden) {
    const stops = [field, ...list.querySelectorAll('a')];
    const at = stops.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (event.key === 'Enter' && at === 0) stops[1]?.click();
    if (next === undefined || !stops[next]) return;
    event.preventDefault();
    stops[next].focus();
  }
});
