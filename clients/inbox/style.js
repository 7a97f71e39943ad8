// Style of <tidings-inbox>. A constructed sheet, because a strict Content-Security-Policy refuses style elements.
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
  color-scheme: light dark;
  display: inline-block;
  font: 400 14px/1.45 var(--tidings-font, system-ui, sans-serif);
}
:host([placement=inline]) { display: block; }
[hidden] { display: none !important; }
button, a.open, .blocks a { font: inherit; color: inherit; background: none; border: 0; cursor: pointer; text-align: start; }
button, .blocks a { min-width: 28px; min-height: 28px; border-radius: 8px; padding: 4px 8px; }
:focus-visible { outline: 2px solid var(--_accent); outline-offset: -2px; }
svg { display: block; width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 1.7; stroke-linecap: round; stroke-linejoin: round; }
.bell { position: relative; display: grid; place-items: center; min-width: 40px; min-height: 40px; border-radius: 50%; }
.bell svg { width: 22px; height: 22px; }
.bell:hover { background: color-mix(in srgb, currentColor 10%, transparent); }
.badge { position: absolute; inset-block-start: 1px; inset-inline-end: 0; min-width: 18px; padding: 0 5px; box-sizing: border-box; border-radius: 9px; background: var(--_badge); color: #fff; font-size: 11px; font-weight: 600; line-height: 18px; text-align: center; }
.panel { position: relative; display: flex; flex-direction: column; box-sizing: border-box; width: 100%; height: var(--tidings-height, 560px); margin: 0; padding: 0; overflow: hidden; color: var(--_text); background: var(--_bg); border: 1px solid var(--_line); border-radius: var(--_radius); outline: none; }
.panel[popover] { position: fixed; inset: var(--_y, 0) auto auto var(--_x, 0); width: min(var(--tidings-width, 400px), 100vw - 16px); max-height: calc(100dvh - var(--_y, 0px) - 8px); box-shadow: 0 12px 40px #0003; }
.panel[popover]:not(:popover-open) { display: none; }
.bar { display: flex; align-items: center; gap: 4px; padding-block: 12px 4px; padding-inline: 16px 10px; }
.bar h2 { flex: 1; margin: 0; font-size: 17px; font-weight: 650; }
.back:dir(rtl) { scale: -1 1; }
.icon { padding: 6px; color: var(--_muted); }
.icon:hover, .plain:hover { color: var(--_text); background: var(--_hover); }
.tabs { display: flex; gap: 4px; padding: 2px 12px 0; border-bottom: 1px solid var(--_line); }
.tabs button { padding: 7px 8px; border-radius: 8px 8px 0 0; color: var(--_muted); border-bottom: 2px solid transparent; }
.tabs [aria-selected=true] { color: var(--_text); font-weight: 600; border-color: var(--_accent); }
.tabs .all-read { margin-inline-start: auto; font-size: 13px; color: var(--_accent); }
.scroll { position: relative; flex: 1; min-height: 0; overflow: auto; overscroll-behavior: contain; scrollbar-width: thin; }
ul { margin: 0; padding: 0; list-style: none; content-visibility: auto; contain-intrinsic-size: auto 1700px; }
li { position: relative; display: flex; gap: 12px; padding-block: 12px; padding-inline: 20px 16px; border-bottom: 1px solid var(--_line); }
li:hover, li:focus-within { background: var(--_hover); }
li[data-unread]::before { content: ''; position: absolute; inset-inline-start: 7px; inset-block-start: 19px; width: 7px; height: 7px; border-radius: 50%; background: var(--_accent); }
li img { width: 36px; height: 36px; border-radius: 8px; object-fit: cover; }
.body { flex: 1; min-width: 0; }
a.open { display: block; color: inherit; text-decoration: none; border-radius: 4px; overflow-wrap: anywhere; }
a.open::after { content: ''; position: absolute; inset: 0; }
a.open:focus-visible { outline: none; }
a.open:focus-visible::after { outline: 2px solid var(--_accent); outline-offset: -3px; border-radius: 8px; }
.title { display: block; }
li[data-unread] .title { font-weight: 620; }
.message { display: -webkit-box; -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; color: var(--_muted); white-space: pre-line; }
.meta { margin-top: 2px; font-size: 12px; color: var(--_muted); }
.acts { position: absolute; inset-block-start: 8px; inset-inline-end: 8px; display: flex; opacity: 0; background: var(--_hover); border-radius: 8px; }
li:hover .acts, li:focus-within .acts { opacity: 1; }
.acts svg { width: 17px; height: 17px; }
.blocks { position: relative; z-index: 1; display: flex; flex-wrap: wrap; gap: 6px; margin-top: 6px; width: fit-content; }
.blocks p { flex-basis: 100%; margin: 0; color: var(--_muted); }
.blocks button, .blocks a { padding: 4px 12px; border: 1px solid var(--_line); background: var(--_bg); text-decoration: none; }
.blocks :is(button, a):hover { border-color: var(--_accent); }
.blocks [aria-pressed=true] { color: var(--_on-accent); background: var(--_accent); border-color: var(--_accent); }
.pill { position: absolute; z-index: 2; inset-block-start: 8px; inset-inline: 0; margin: auto; width: fit-content; padding: 4px 14px; border-radius: 16px; box-shadow: 0 3px 12px #0004; }
.pill, .solid { color: var(--_on-accent); background: var(--_accent); }
.list { position: relative; display: flex; flex-direction: column; flex: 1; min-height: 0; }
.state { padding: 64px 24px; text-align: center; color: var(--_muted); }
.state svg { width: 40px; height: 40px; margin: 0 auto 12px; stroke-width: 1.2; }
.state button { text-align: center; }
.line { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 6px; padding: 8px 16px; border-top: 1px solid var(--_line); font-size: 13px; color: var(--_muted); }
.line > span { flex: 1 1 55%; }
.line button { color: var(--_accent); }
.line .solid { color: var(--_on-accent); }
.more { height: 300px; margin-top: -300px; visibility: hidden; pointer-events: none; }
fieldset { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0; padding: 12px 16px; border: 0; border-bottom: 1px solid var(--_line); }
legend { float: inline-start; flex-basis: 100%; padding: 0; font-weight: 600; }
label { display: flex; gap: 7px; align-items: center; min-height: 28px; cursor: pointer; }
input { width: 17px; height: 17px; margin: 0; accent-color: var(--_accent); }
.quiet { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (hover: none) { .acts { opacity: 1; background: none; } li { padding-inline-end: 84px; } }
@media (max-width: 480px) {
  .panel[popover] { inset: 0; width: 100vw; max-width: none; height: 100dvh; max-height: none; border: 0; border-radius: 0; }
}
@media (prefers-reduced-motion: no-preference) {
  .panel:popover-open { animation: show .14s ease-out; }
  @keyframes show { from { opacity: 0; translate: 0 -6px; } }
}
@media (forced-colors: active) { .badge, .pill, li[data-unread]::before { border: 1px solid; } }
`;
