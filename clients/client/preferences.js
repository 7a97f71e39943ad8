// Preferences of the user: channels by category and by topic. Loaded when a page shows them.
// SPDX-License-Identifier: Apache-2.0
/** @import { App, CreatePreferences, Preference, PreferenceCategory, VisibleTopic } from './types.js' */

/** The last change of a topic. Changes run one after another, because each writes all channels of the subscription. */
let last = Promise.resolve();

/** @type {CreatePreferences} */
export const createPreferences = ({ api, app }) => {
  const load = async (/** @type {string} */ path) => (await api(path)).json();

  /** @param {string} topic @param {string} channel @param {boolean} enabled */
  const changeTopic = async (topic, channel, enabled) => {
    const path = `/topics/${encodeURIComponent(topic)}/subscription`;
    /** @type {{ channels: string[] | null }} */
    const { channels } = await load(path);
    if (!channels && !enabled) return;
    const others = (channels ?? []).filter((allowed) => allowed !== channel);
    await api(path, { method: 'PUT', body: { channels: enabled ? [...others, channel] : others } });
  };

  return {
    list: async () => {
      /** @type {[App, PreferenceCategory[], Preference[]]} */
      const [{ channels = [] }, all, own] = await Promise.all([app(), load('/categories'), load('/preferences')]);
      // Older servers send no order. Equal ones keep the order of creation, because sorting is stable.
      const sorted = [...all].sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
      return sorted.flatMap(({ id, identifier, name, critical, hideInPreferenceManager }) => {
        const choices = own.find(({ categoryId }) => categoryId === id)?.channels;
        // Channels without a choice are on.
        const enabled = (/** @type {string} */ channel) =>
          choices?.find((choice) => choice.channel === channel)?.enabled ?? true;
        const shown = channels.map((channel) => ({ channel, enabled: enabled(channel) }));
        return hideInPreferenceManager ? [] : { id, identifier, name, critical, channels: shown };
      });
    },
    set: async (categoryId, channel, enabled) => {
      const channels = [{ channel, enabled }];
      const body = { preference: [categoryId].flat().map((categoryId) => ({ categoryId, channels })) };
      await api('/preferences', { method: 'PATCH', body });
    },
    topics: async () => {
      /** @type {[App, VisibleTopic[]]} */
      const [{ channels = [] }, topics] = await Promise.all([app(), load('/topics')]);
      return topics.map(({ id, identifier, name, channels: allowed }) => {
        const shown = channels.map((channel) => ({ channel, enabled: allowed?.includes(channel) ?? false }));
        return { id, identifier, name, channels: shown };
      });
    },
    setTopic: (topic, channel, enabled) => {
      const change = last.then(() => changeTopic(topic, channel, enabled));
      last = change.catch(() => undefined);
      return change;
    },
  };
};
