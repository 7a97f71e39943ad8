// The editor of a template works without this script. It previews the text during input, numbers its lines, and leads from a problem to
// its line.
(() => {
  'use strict';
  const { fetchPart, replace, refusals } = globalThis.parts;

  // A form with `data-part` shows its answer in that part of the page. Answers that later input has overtaken are dropped.
  const preview = (form) => {
    let [round, timer, isSure] = [0, 0, false];
    const part = document.querySelector(form.dataset.part);
    const ask = () => fetchPart(form.action, part.id, { method: 'POST', body: new URLSearchParams(new FormData(form)) });
    const showFrame = () => {
      const button = part.querySelector('[data-auto]');
      if (button) form.requestSubmit(button);
    };
    const complain = (error) => {
      const problem = part.querySelector('.outdated') ?? document.createElement('p');
      problem.className = 'problem outdated';
      problem.setAttribute('role', 'alert');
      const cause = Object.values(refusals).includes(error.message) ? error.message : 'The console did not answer.';
      problem.textContent = `${cause} This is an earlier state. Your input is still in the form.`;
      part.prepend(problem);
      problem.scrollIntoView({ block: 'nearest' });
    };
    const render = async () => {
      clearTimeout(timer);
      round += 1;
      const own = round;
      part.setAttribute('aria-busy', 'true');
      const fresh = await ask().catch((error) => error);
      if (own !== round) return;
      part.removeAttribute('aria-busy');
      if (fresh instanceof Error) { complain(fresh); return; }
      replace(part, fresh);
      showFrame();
    };
    form.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(render, 300);
    });
    // The page is left only if the server accepts the text, so that no refusal takes its place.
    form.addEventListener('submit', (event) => {
      const button = event.submitter;
      if (isSure || button?.formTarget) return;
      event.preventDefault();
      if (!button?.hasAttribute('formaction')) { render(); return; }
      ask().then(() => {
        isSure = true;
        form.requestSubmit(button);
        isSure = false;
      }, complain);
    });
    showFrame();
  };

  // Numbers of lines beside a text. Long lines do not wrap, so that each line has the height of its number.
  const addNumbers = (area) => {
    const box = document.createElement('span');
    const numbers = document.createElement('pre');
    [box.className, numbers.className, area.wrap] = ['numbered', 'lines', 'off'];
    numbers.setAttribute('aria-hidden', 'true');
    area.replaceWith(box);
    box.append(area, numbers);
    const write = () => { numbers.textContent = area.value.split('\n').map((_, line) => line + 1).join('\n'); };
    area.addEventListener('input', write);
    area.addEventListener('scroll', () => { numbers.scrollTop = area.scrollTop; });
    write();
  };

  const goToLine = (link) => {
    const area = document.getElementById(link.hash.slice(1));
    const before = area.value.split('\n').slice(0, link.dataset.line - 1);
    const start = before.reduce((length, line) => length + line.length + 1, 0);
    const end = area.value.indexOf('\n', start);
    area.closest('details').open = true;
    area.focus();
    area.setSelectionRange(start, end < 0 ? area.value.length : end);
    area.scrollTop = (link.dataset.line - 3) * parseFloat(getComputedStyle(area).lineHeight);
  };

  addEventListener('click', (event) => {
    const link = event.target.closest('a[data-line]');
    if (!link) return;
    event.preventDefault();
    goToLine(link);
  });
  document.querySelectorAll('textarea[data-lines]').forEach(addNumbers);
  document.querySelectorAll('form[data-part]').forEach(preview);
})();
