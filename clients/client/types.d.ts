// Types of the modules. Browsers never load this file.
// SPDX-License-Identifier: Apache-2.0

export interface Options {
    /** URL of the gateway, with its path if it has one. */
    url: string;
    /** Public key of the app. */
    apiKey: string;
    /** Identifier of the user. */
    user: string;
    /** Returns a user token. Required in secure mode. Called again when the token has expired. */
    getToken?: () => string | Promise<string>;
    /** Notifications per request, 1 to 20. 20 by default. */
    pageSize?: number;
    /** Identifiers of the categories to show. All by default. The counters always cover the whole list. */
    categories?: string[];
    /** URL of the service worker for web push. Without it, push is unsupported. */
    serviceWorker?: string;
    /** Prefix of the API's header names. `X-SERVICE` by default. */
    headerPrefix?: string;
}

export interface Category {
    id: number;
    identifier: string;
    name: string;
}

/** A block of a notification. Apps choose the members; check them before use. */
export type Block = Record<string, unknown>;

export interface Notification {
    id: number;
    title: string | null;
    message: string | null;
    icon: string | null;
    url: string | null;
    data: Record<string, unknown>;
    blocks: Block[];
    createdAt: string;
    seenAt: string | null;
    /** Time at which the notification was read; null if it is unread. */
    clickedAt: string | null;
    category: Category | null;
    /** State that the app keeps with the notification. */
    state: string | null;
    /** Time at which the notification was archived; null if it is not archived. */
    archivedAt: string | null;
    /** Time at which a snoozed notification returns; null if it is not snoozed. */
    snoozedUntil: string | null;
    /** Id of the send. Before 0.6, only notifications that came over the stream have it. */
    requestId?: string;
}

export type Connection = 'live' | 'connecting' | 'offline';

/**
 * State of web push in this browser. `install`: iOS supports push only for pages on the home screen. `granted`: allowed, but not
 * subscribed.
 */
export type PushState = 'unsupported' | 'install' | 'default' | 'denied' | 'granted' | 'subscribed';

/** An error. `status` and `code` are those of the API; both are missing if the network failed. */
export interface Failure {
    message: string;
    status?: number;
    code?: string;
    /** Seconds to wait before the next attempt. */
    retryAfter?: number;
    /** True if the server rejected a change. */
    isChange?: boolean;
}

/** State of the inbox at one moment. Never modified. */
export interface Snapshot {
    /** Loaded notifications, newest first. */
    readonly items: readonly Notification[];
    readonly unreadCount: number;
    readonly unseenCount: number;
    /** True if older notifications can be loaded. */
    readonly hasMore: boolean;
    /** True after the first page has arrived. */
    readonly loaded: boolean;
    readonly connection: Connection;
    /** Last error; null after the next success. */
    readonly error: Failure | null;
    readonly push: PushState;
}

export interface CategoryPreference extends Category {
    /** True if the user's choices do not apply to the category. */
    critical?: boolean;
    channels: { channel: string; enabled: boolean }[];
}

export interface Preferences {
    /** Lists the categories of the preference screen, in their order, with every channel of the app. */
    list(): Promise<CategoryPreference[]>;
    /** Turns a channel of one or several categories on or off. */
    set(categoryId: number | number[], channel: string, enabled: boolean): Promise<void>;
    /** Lists the topics that the user sees, with every channel of the app. All are off if the user does not subscribe to the topic. */
    topics(): Promise<TopicPreference[]>;
    /** Turns a channel of a topic on or off. The first channel that is turned on subscribes the user to an open topic. */
    setTopic(topic: string, channel: string, enabled: boolean): Promise<void>;
}

export interface TopicPreference {
    id: number;
    identifier: string;
    name: string;
    channels: { channel: string; enabled: boolean }[];
}

export interface Push {
    readonly state: PushState;
    /** Detects the state again. */
    update(): Promise<PushState>;
    /** Asks for permission if needed, and subscribes. Call it from a click. */
    subscribe(): Promise<PushState>;
    /** Ends the subscription of this browser. Call it before the user signs out. */
    unsubscribe(): Promise<PushState>;
}

export interface Inbox {
    /** Calls `listener` after each change of the snapshot. Returns a function that ends this. */
    subscribe(listener: () => void): () => void;
    getSnapshot(): Snapshot;
    start(): void;
    stop(): void;
    /** Loads the next page. Resolves to false if this failed. */
    loadMore(): Promise<boolean>;
    refresh(): Promise<void>;
    read(id: number): void;
    unread(id: number): void;
    seen(ids: number[]): void;
    remove(id: number): void;
    setState(id: number, state: string | null): void;
    archive(id: number): void;
    unarchive(id: number): void;
    /** Hides the notification until a time, at most 365 days ahead. Then it returns to its place, unread. */
    snooze(id: number, until: Date): void;
    unsnooze(id: number): void;
    /** Lists archived or snoozed notifications, newest first. Pass the `cursor` of the answer for the next page. */
    hidden(place: 'archived' | 'snoozed', cursor?: string): Promise<HiddenPage>;
    readAll(): void;
    removeAll(): void;
    preferences: Preferences;
    push: Push;
}

/** A page of archived or snoozed notifications. */
export interface HiddenPage {
    items: Notification[];
    /** Cursor of the next page; null if there is none. */
    cursor: string | null;
}

export type Kind =
    | 'seen'
    | 'unseen'
    | 'read'
    | 'unread'
    | 'deleted'
    | 'archived'
    | 'unarchived'
    | 'snoozed'
    | 'unsnoozed'
    | 'state';

/** A change that the user made. */
export interface Change {
    /** Storage entry of the change. */
    key: string;
    at: number;
    change: Kind;
    /** The items. For a change to all items: the loaded ones. */
    ids: number[];
    /** Newest id of a change to all items. */
    upTo?: number;
    state?: string | null;
    /** End of a snooze. */
    until?: string;
}

/** Loaded part of an inbox: every item whose place is `floor` or later. */
export interface Box {
    items: Map<number, Notification>;
    unreadCount: number;
    unseenCount: number;
    /** Cursor of the next page; null if there is none. */
    cursor: string | null;
    /** `UNLOADED` before the first page, empty if all items are loaded. */
    floor: string;
}

/** An event of the stream, with parsed data. */
export interface StreamEvent {
    name: string;
    id: string;
    data: any;
}

export interface Page {
    unreadCount: number;
    unseenCount: number;
    pagination: { nextCursor: string | null };
    data: Notification[];
}

export interface App {
    enableWebPush?: boolean;
    publicKey?: string | null;
    channels?: string[];
}

/** A category as the server lists it. */
export interface PreferenceCategory extends Category {
    critical?: boolean;
    hideInPreferenceManager?: boolean;
    order?: number;
}

/** Choices of the user for a category. */
export interface Preference {
    categoryId: number;
    channels: { channel: string; enabled: boolean }[];
}

export interface CallInit {
    method?: string;
    body?: unknown;
    headers?: Record<string, string>;
    /** Headers about the device, named without their prefix: `ID`, `SECRET`. */
    device?: Record<string, string>;
    signal?: AbortSignal;
}

export interface Call {
    (path: string, init?: CallInit): Promise<Response>;
    /** Requests a new token for the next call. */
    renew(): void;
}

/** Calls the API, and parses the answer. */
export type Json = (...call: Parameters<Call>) => Promise<any>;

export type CreateInbox = (options: Options) => Inbox;
export type CreateApi = (options: Options) => Call;
export type Abortable = <T>(signal: AbortSignal, promise: Promise<T>) => Promise<T>;
export type IsFinal = (failure: Failure) => boolean;

export type NewBox = () => Box;
export type Put = (box: Box, id: number, next?: Notification) => void;
export type Steps = Record<Kind, (item: Notification, at: string, state?: string | null) => Notification | undefined>;
export type ApplyChange = (
    box: Box,
    change: Pick<Change, 'change' | 'upTo' | 'state' | 'at'> & { ids?: number[] },
) => void;
export type AddPage = (box: Box, page: Page) => void;
export type ApplyEvent = (box: Box, event: StreamEvent) => void;

export type CreateChanges = (options: {
    /** Prefix of the storage entries. */
    name: string;
    /** Runs before each call. Its failures never drop a change. */
    prepare(): Promise<unknown>;
    /** Sends a change, and applies it. */
    send(change: Change): Promise<void>;
    reject(failure: Failure): void;
    changed(): void;
}) => {
    /** Changes to show, oldest first. */
    pending(): Change[];
    add(change: Pick<Change, 'change' | 'ids' | 'upTo' | 'state' | 'until'>): void;
    /** Sends the waiting changes. */
    flush(): void;
    start(): void;
    stop(): void;
};

/** Data of the event `bye`. */
export interface Bye {
    reason?: string;
    retryAfter?: number;
}

/** Parses Server-Sent Events. Calls `alive` for each chunk. */
export type Parse = (reader: ReadableStreamDefaultReader<Uint8Array>, alive: () => void) => AsyncGenerator<StreamEvent>;

export type CreateStream = (options: {
    api: Call;
    lastId(): string;
    /** Runs before each attempt. */
    prepare(): Promise<unknown>;
    deliver(event: StreamEvent): Promise<void>;
    /** Reports the state, and a failure that lasts. */
    status(connection: Connection, failure?: Failure): void;
}) => {
    /** Ends the pause before the next attempt. */
    wake(): void;
    /** Keeps a connection until the signal aborts. */
    run(signal: AbortSignal): Promise<void>;
};

export type JoinTabs = (options: {
    name: string;
    /** Leads until the signal aborts. */
    lead(signal: AbortSignal): Promise<void>;
    receive(message: any): void;
}) => Tabs;

export interface Tabs {
    post(message: unknown): void;
    /** Requests the lead. */
    enter(): void;
    /** Gives up the lead or the request for it. */
    leave(): void;
    close(): void;
}

/** Reads or, with a value, writes a storage entry. An empty value removes it. Returns the value, empty if this failed. */
export type Remember = (name: string, value?: string) => string;

/** Push, with a method for the client only. */
export interface LoadedPush extends Push {
    /**
     * Closes web pushes of the items that an event reports as read or deleted. For a change of all items, `items` are those loaded
     * before it.
     */
    silence(event: StreamEvent, items: Notification[]): Promise<void>;
}

export type CreatePush = (options: {
    /** Prefix of the storage entries. */
    name: string;
    worker: string | undefined;
    app(): Promise<App>;
    api: Call;
    device: { ID: string };
    changed(): void;
}) => LoadedPush;

/** Answer of `GET /v3/topics` for a user. */
export interface VisibleTopic {
    id: number;
    identifier: string;
    name: string;
    /** The allowed channels; null if the user does not subscribe to the topic. */
    channels: string[] | null;
}

export type CreatePreferences = (options: { api: Call; app(): Promise<App> }) => Preferences;
