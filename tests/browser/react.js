// A page with the React wrapper, which a server renders first. The test bundles this file with each supported version of React.
// SPDX-License-Identifier: Apache-2.0
import { StrictMode, createElement } from 'react';
import { hydrateRoot } from 'react-dom/client';
import { renderToString } from 'react-dom/server';
import { Inbox, TidingsProvider, useInbox } from '../../clients/react/index.js';

const Count = () => {
  const { unreadCount, inbox } = useInbox();
  return createElement('button', { id: 'count', onClick: () => inbox?.readAll() }, `${unreadCount} unread`);
};

const opened = [];
const onOpen = (event) => {
  event.preventDefault();
  opened.push(event.detail.notification.title);
};
const page = (options) =>
  createElement(
    StrictMode,
    null,
    createElement(
      TidingsProvider,
      options,
      createElement(Count),
      createElement(Inbox, { placement: 'inline', className: 'side', onOpen }),
    ),
  );

if (globalThis.document) {
  const problems = [];
  globalThis.show = (html, options) => {
    const container = document.createElement('div');
    container.innerHTML = html;
    document.body.append(container);
    const root = hydrateRoot(container, page(options), { onRecoverableError: (error) => problems.push(error.message) });
    return Object.assign(globalThis, { root, opened, problems }) && true;
  };
} else {
  console.log(renderToString(page({ url: 'http://127.0.0.1:1', apiKey: 'k', user: 'ada' })));
}
