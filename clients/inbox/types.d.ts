// Types of the modules. Browsers never load this file.
// SPDX-License-Identifier: Apache-2.0
import type { Inbox, Notification } from '../client/types.js';
import type { english } from './strings.js';

export type Strings = typeof english;

/** Language of the element. */
export interface Text {
    strings: Strings;
    locale: string;
    /** Returns a string, with `{n}` replaced. */
    say(name: keyof Strings, n?: number): string;
}

/** Elements that exist before the panel has its content. */
export interface Shell {
    bell: HTMLButtonElement;
    badge: HTMLElement;
    panel: HTMLElement;
    status: HTMLElement;
}

/** The element, as the panel uses it. */
export interface Host extends HTMLElement {
    readonly inbox: Inbox | undefined;
    render(): void;
    hide(): void;
}

/** An item that the list hides, and what happens to it unless the user undoes it. */
export interface Removal {
    item: Notification;
    /** Name of the string that reports it. */
    done: 'removed' | 'archived' | 'snoozed';
    run(): void;
    timer: number;
}

/** Elements of a notification. */
export interface Row {
    row: HTMLElement;
    open: HTMLAnchorElement;
    title: HTMLElement;
    message: HTMLElement;
    image: HTMLImageElement;
    meta: HTMLElement;
    blocks: HTMLElement;
    body: HTMLElement;
    toggle: HTMLElement;
    hide: HTMLElement;
    remove: HTMLElement;
    item?: Notification;
    /** Round of the panel in which the elements were updated. */
    round?: number;
}

/** Creates an element. A member of `set` becomes a property if the element has it, otherwise an attribute. */
export type CreateElement = <T extends keyof HTMLElementTagNameMap>(
    tag: T,
    set?: Record<string, unknown>,
    ...children: (Node | string)[]
) => HTMLElementTagNameMap[T];
