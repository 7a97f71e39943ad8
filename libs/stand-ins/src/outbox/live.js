// Shows times in the zone of the reader, and new messages without a reload. The page works without this script.
const INTERVAL = 2000;

const localTimes = (root) => {
  for (const time of root.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    const isToday = at.toDateString() === new Date().toDateString();
    const style = isToday || time.dataset.whole !== undefined ? {} : { day: 'numeric', month: 'short' };
    time.textContent =
      time.dataset.whole === undefined
        ? at.toLocaleString([], { ...style, hour: '2-digit', minute: '2-digit', second: isToday ? '2-digit' : undefined })
        : at.toLocaleString();
  }
};

let newest = document.body.dataset.newest;

const check = async () => {
  if (document.hidden) return;
  const answer = await fetch('/newest');
  const current = answer.ok ? await answer.text() : newest;
  if (current === newest) return;
  const page = await fetch(location.href);
  if (!page.ok) return;
  const fresh = new DOMParser().parseFromString(await page.text(), 'text/html');
  // Keep the focus of a reader who is moving through the list.
  const focused = document.activeElement?.closest('.list a')?.getAttribute('href');
  for (const part of ['.list', 'header nav']) document.querySelector(part).replaceWith(fresh.querySelector(part));
  if (focused) document.querySelector(`.list a[href="${CSS.escape(focused)}"]`)?.focus();
  localTimes(document.querySelector('.list'));
  newest = current;
  document.querySelector('[aria-live]').textContent = 'The list has changed.';
};

localTimes(document);
setInterval(() => check().catch(() => {}), INTERVAL);
