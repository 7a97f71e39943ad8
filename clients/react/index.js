// @tidings/react: provider, hook and component for the Tidings inbox. README.md describes it.
// SPDX-License-Identifier: Apache-2.0
/** @import { Inbox as Client, Options, Snapshot } from '../client/types.js' */
import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { createInbox } from '../client/index.js';

/** Snapshot on the server, and before the inbox starts. @type {Snapshot} */
const EMPTY = Object.freeze({
  items: Object.freeze([]),
  unreadCount: 0,
  unseenCount: 0,
  hasMore: false,
  loaded: false,
  connection: 'connecting',
  error: null,
  push: 'unsupported',
});

const Context = createContext(/** @type {Client | null} */ (null));

/**
 * Starts an inbox for its children, and stops it when it is unmounted or when `url`, `apiKey`, `user` or `categories` change,
 * or `getToken` is added or removed.
 * @param {Options & { children?: import('react').ReactNode }} props
 */
export const TidingsProvider = ({ children, ...options }) => {
  const [inbox, setInbox] = useState(/** @type {Client | null} */ (null));
  const latest = useRef(options);
  useEffect(() => {
    latest.current = options;
  });
  const { url, apiKey, user, categories, getToken } = options;
  useEffect(() => {
    const started = createInbox({
      ...latest.current,
      getToken: getToken && (() => (latest.current.getToken ?? getToken)()),
    });
    started.start();
    setInbox(started);
    return () => {
      started.stop();
      setInbox(null);
    };
  }, [url, apiKey, user, categories?.join(), !getToken]);
  return createElement(Context.Provider, { value: inbox }, children);
};

/**
 * Returns the snapshot of the nearest provider, and its headless inbox; `inbox` is null until it starts.
 * @returns {Snapshot & { inbox: Client | null }}
 */
export const useInbox = () => {
  const inbox = useContext(Context);
  const subscribe = useCallback(
    (/** @type {() => void} */ listener) => inbox?.subscribe(listener) ?? (() => {}),
    [inbox],
  );
  const snapshot = useSyncExternalStore(
    subscribe,
    () => inbox?.getSnapshot() ?? EMPTY,
    () => EMPTY,
  );
  return { ...snapshot, inbox };
};

/**
 * Renders `<tidings-inbox>` for the nearest provider. Children with a `slot` replace parts of it.
 * @param {{
 *   placement?: 'end' | 'start' | 'inline',
 *   locale?: string,
 *   strings?: Partial<import('../inbox/types.js').Strings>,
 *   onOpen?: (event: CustomEvent) => void,
 *   onAction?: (event: CustomEvent) => void,
 *   className?: string,
 *   children?: import('react').ReactNode,
 * }} props
 */
export const Inbox = ({ strings, onOpen, onAction, className, ...attributes }) => {
  const inbox = useContext(Context);
  const ref = useRef(/** @type {any} */ (null));
  const handlers = useRef({ onOpen, onAction });
  useEffect(() => {
    handlers.current = { onOpen, onAction };
  });
  useEffect(() => {
    const element = ref.current;
    const open = (/** @type {CustomEvent} */ event) => handlers.current.onOpen?.(event);
    const act = (/** @type {CustomEvent} */ event) => handlers.current.onAction?.(event);
    element.addEventListener('tidings-open', open);
    element.addEventListener('tidings-action', act);
    // The element needs a browser, so a server never loads it.
    void import('../inbox/index.js');
    return () => {
      element.removeEventListener('tidings-open', open);
      element.removeEventListener('tidings-action', act);
    };
  }, []);
  useEffect(() => {
    ref.current.inbox = inbox ?? undefined;
  }, [inbox]);
  useEffect(() => {
    if (strings) ref.current.strings = strings;
  }, [strings]);
  // React 18 sets `class` on custom elements only by this name.
  return createElement('tidings-inbox', { ref, class: className, ...attributes });
};
