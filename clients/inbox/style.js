// Style of the bell and the empty panel. A constructed sheet, because a strict Content-Security-Policy refuses style elements.
// SPDX-License-Identifier: Apache-2.0

export const css = `
:host {
  --_bg: var(--tidings-background, light-dark(#fff, #1c1d21));
  --_text: var(--tidings-text, light-dark(#1d1e22, #ececf0));
  --_muted: var(--tidings-muted, light-dark(#5d6069, #a4a7b2));
  --_line: var(--tidings-border, light-dark(#e4e5ea, #34363d));
  --_hover: var(--tidings-hover, light-dark(#f4f5f8, #27292f));
  --_accent: var(--tidings-accent, light-dark(#2f5bea, #8eabff));
  --_on-accent: var(--tidings-on-accent, light-dark(#fff, #10131c));
  --_badge: var(--tidings-badge, #d3233f);
  --_radius: var(--tidings-radius, 12px);
  display: inline-block;
  font: 400 14px/1.45 var(--tidings-font, system-ui, sans-serif);
}
:host([placement=inline]) { display: block; }
[hidden] { display: none !important; }
button, a.open, .blocks a { font: inherit; color: inherit; background: none; border: 0; cursor: pointer; text-align: start; }
:focus-visible { outline: 2px solid var(--_accent); outline-offset: -2px; }
svg { display: block; width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 1.7; stroke-linecap: round; stroke-linejoin: round; }
.bell { position: relative; display: grid; place-items: center; min-width: 40px; min-height: 40px; padding: 4px 8px; border-radius: 50%; }
.bell svg { width: 22px; height: 22px; }
.bell:hover { background: color-mix(in srgb, currentColor 10%, transparent); }
.badge { position: absolute; inset-block-start: 2px; inset-inline-start: 21px; min-width: 16px; padding: 0 4px; box-sizing: border-box; border-radius: 8px; background: var(--_badge); color: #fff; font-size: 10px; font-weight: 650; line-height: 16px; text-align: center; }
.panel { position: relative; display: flex; flex-direction: column; box-sizing: border-box; width: 100%; height: var(--tidings-height, 560px); margin: 0; padding: 0; overflow: hidden; color: var(--_text); background: var(--_bg); border: 1px solid var(--_line); border-radius: var(--_radius); outline: none; }
.panel[popover] { position: fixed; inset: var(--_y, 0) auto auto var(--_x, 0); width: min(var(--tidings-width, 400px), 100vw - 16px); max-height: calc(100dvh - var(--_y, 0px) - 8px); box-shadow: 0 12px 40px #0003; }
.panel[popover]:not(:popover-open) { display: none; }
.quiet { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (max-width: 480px) {
  .panel[popover] { inset: 0; width: 100vw; max-width: none; height: 100dvh; max-height: none; border: 0; border-radius: 0; }
}
@media (forced-colors: active) { .badge { border: 1px solid; } }
`;
