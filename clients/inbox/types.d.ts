// Types of the modules. Browsers never load this file.
// SPDX-License-Identifier: Apache-2.0
import type { Inbox, Notification } from '../client/types.js';
import type { bell, hidden, panel, settings } from './strings.js';

export type Strings = typeof bell & typeof hidden & typeof panel & typeof settings;

/** Language of the element. */
export interface Text {
    /** Strings of the language, and those that the page sets. */
    strings: Partial<Strings>;
    /** English strings of the files that have loaded. */
    english: Partial<Strings>;
    locale: string;
    /** Returns a string, with `{n}` replaced. It is empty for an unknown name. */
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

/** A category in the table of the settings. */
export interface SwitchRow {
    id: number;
    name: string;
    /** True if the channels are always on. */
    isLocked: boolean;
    channels: { channel: string; enabled: boolean }[];
    set(channel: string, enabled: boolean): Promise<void>;
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
    /** Source of the icon that could not be loaded. */
    failed?: string | null;
    /** Round of the panel in which the elements were updated. */
    round?: number;
}

/** Creates an element. A member of `set` becomes a property if the element has it, otherwise an attribute. */
export type CreateElement = <T extends keyof HTMLElementTagNameMap>(
    tag: T,
    set?: Record<string, unknown>,
    ...children: (Node | string)[]
) => HTMLElementTagNameMap[T];
