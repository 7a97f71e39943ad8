// Preferences of the user: channels by category. Loaded when a page shows them.
// SPDX-License-Identifier: Apache-2.0
/** @import { App, CreatePreferences, Preference, PreferenceCategory } from './types.js' */

/** @type {CreatePreferences} */
export const createPreferences = ({ api, app }) => ({
  list: async () => {
    const load = async (/** @type {string} */ path) => (await api(path)).json();
    /** @type {[App, PreferenceCategory[], Preference[]]} */
    const [{ channels = [] }, all, own] = await Promise.all([app(), load('/categories'), load('/preferences')]);
    return all.flatMap(({ id, identifier, name, critical, hideInPreferenceManager }) => {
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
});
