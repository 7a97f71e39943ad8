// Style of the content of the panel.
// SPDX-License-Identifier: Apache-2.0

export const css = `
button, .blocks a { min-width: 28px; min-height: 28px; border-radius: 8px; padding: 4px 8px; }
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
@media (hover: none) { .acts { opacity: 1; background: none; } li { padding-inline-end: 112px; } }
@media (prefers-reduced-motion: no-preference) {
  .panel:popover-open { animation: show .14s ease-out; }
  @keyframes show { from { opacity: 0; translate: 0 -6px; } }
}
@media (forced-colors: active) { .pill, li[data-unread]::before { border: 1px solid; } }
`;
