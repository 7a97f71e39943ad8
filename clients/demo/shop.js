// Demo shop: shows the inbox of a user, and sends notifications through the demo's backend.
// SPDX-License-Identifier: Apache-2.0

/** @template {Element} T @param {string} id @param {new () => T} type @returns {T} */
const find = (id, type) => {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`the page lacks #${id}`);
  return element;
};

const user = new URLSearchParams(location.search).get('user') || 'ada';
const other = user === 'grace' ? 'ada' : 'grace';
const [form, result, toast, second] = [
  find('send', HTMLFormElement),
  find('result', HTMLOutputElement),
  find('toast', HTMLOutputElement),
  find('second', HTMLAnchorElement),
];

/**
 * Sends a notification, and shows the result.
 * @param {{ user: string, title: string, message: string, category: string, url?: string }} notification
 * @param {HTMLOutputElement} result
 */
const send = async (notification, result) => {
  result.value = 'Sending…';
  try {
    const response = await fetch('./send', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(notification),
    });
    const answer = await response.json().catch(() => ({}));
    result.value = response.ok
      ? `Sent to ${notification.user}. See the bell.`
      : [answer.message ?? `Error ${response.status}`].flat().join('; ');
  } catch {
    result.value = 'The demo backend cannot be reached';
  }
};

find('user', HTMLElement).textContent = user;
second.href = `?user=${other}`;
second.textContent = `Open a second window as ${other}`;
/** @type {HTMLInputElement} */ (form.elements.namedItem('user')).value = user;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const fields = new FormData(form);
  const [to, title, message, url] = ['user', 'title', 'message', 'url'].map((name) =>
    String(fields.get(name) ?? '').trim(),
  );
  void send({ user: to, title, message, category: 'messages', ...(url && { url }) }, result);
});

let hiding = setTimeout(() => {});
for (const button of document.querySelectorAll('button[data-title]')) {
  const { title = '', message = '' } = /** @type {HTMLElement} */ (button).dataset;
  button.addEventListener('click', async () => {
    clearTimeout(hiding);
    await send({ user, title, message, category: 'orders' }, toast);
    clearTimeout(hiding);
    hiding = setTimeout(() => (toast.value = ''), 4_000);
  });
}

const { url, apiKey } = await (await fetch('./settings.json')).json();
await import(`${url.replace(/\/+$/, '')}/clients/min/inbox.js`);
const inbox = document.createElement('tidings-inbox');
for (const [name, value] of Object.entries({ url, 'api-key': apiKey, user })) inbox.setAttribute(name, value);
find('bell', HTMLElement).append(inbox);
