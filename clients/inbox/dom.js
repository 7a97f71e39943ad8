// Creates elements.
// SPDX-License-Identifier: Apache-2.0

/** Creates an element. Its first class is also its part. @type {import('./types.js').CreateElement} */
export const h = (tag, set = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (name in element) /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  const [part] = element.classList;
  if (part) element.part.add(part);
  return element;
};

/** Creates an icon from the data of a path. @param {string} path */
export const icon = (path) => {
  const [svg, line] = ['svg', 'path'].map((name) => document.createElementNS('http://www.w3.org/2000/svg', name));
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  line.setAttribute('d', path);
  svg.append(line);
  return svg;
};

/** Path of the bell. */
export const BELL = 'M6 9a6 6 0 0 1 12 0c0 6 2.5 7 2.5 7h-17S6 15 6 9M10 20a2.2 2.2 0 0 0 4 0';
