// CodeMirror 6 as Beacon's editor of Markdown, for static/vendor/editor.js (see build.sh):
// BeaconEditor.mount(textarea, {nonce, words}) puts it in the place of a textarea, whose value follows.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { defineLanguageFacet, Language, syntaxHighlighting } from "@codemirror/language";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, ViewPlugin } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { GFM, parser } from "@lezer/markdown";

const markdown = new Language(defineLanguageFacet(), parser.configure([GFM]), [], "markdown");

// Colours are the page's own tokens, so that light and dark follow it.
const theme = EditorView.theme({
  "&": { color: "inherit", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { caretColor: "currentColor", padding: "8px 0" },
  ".cm-line": { paddingInline: "6px 2px" }, // the same at both edges, whichever a line begins at
  ".cm-gutters": { color: "var(--ink-3)", backgroundColor: "transparent", border: "none" },
  ".cm-panels": { color: "inherit", backgroundColor: "var(--wash)", borderColor: "var(--line)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-textfield, .cm-button": { color: "inherit", background: "var(--sheet)", borderColor: "var(--edge)" },
  ".cm-panel.cm-search [name=close]": { minWidth: "24px", minHeight: "24px", padding: "0 6px" },
  ".cm-searchMatch": { color: "inherit", backgroundColor: "var(--accent-wash)" },
  ".cm-searchMatch-selected": { outline: "2px solid var(--accent)", backgroundColor: "var(--accent-wash)" },
});

// Tab goes on to the next control, as in any form; Ctrl+Enter is the page's own.
const keys = [...searchKeymap, ...historyKeymap, ...defaultKeymap].filter(({ key }) => key !== "Mod-Enter");

// Typing over a selection of several lines, browsers put inline styles in to keep its look, which the
// page's policy refuses: the text is put in here instead.
const plainly = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    if (event.inputType !== "insertText" || event.data === null || view.composing) return false;
    const { from, to } = view.state.selection.main;
    const lines = view.state.doc.lineAt(from).to < to || event.data.includes("\n");
    if (!lines || view.state.selection.ranges.length > 1) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

// Each line reads in the direction of its own text, as in a textarea whose dir is auto: a file in Hebrew
// may have a heading in English.  Line numbers stay on their side.
const ownDirection = Decoration.line({ attributes: { dir: "auto" } });
const shownLines = ({ state, visibleRanges }) => {
  const starts = new Set();
  for (const { from, to } of visibleRanges)
    for (let at = from; at <= to; at = state.doc.lineAt(at).to + 1) starts.add(state.doc.lineAt(at).from);
  return Decoration.set([...starts].map((start) => ownDirection.range(start)));
};
const directions = ViewPlugin.define(
  (view) => ({
    decorations: shownLines(view),
    update(changed) {
      if (changed.docChanged || changed.viewportChanged) this.decorations = shownLines(changed.view);
    },
  }),
  { decorations: (plugin) => plugin.decorations },
);

export const mount = (textarea, { nonce, words }) => {
  const label = textarea.labels[0];
  label.id ||= `${textarea.id}-label`;
  const about = { "aria-labelledby": label.id, spellcheck: "true", autocapitalize: "sentences", tabindex: "0" };
  for (const name of ["aria-invalid", "aria-describedby"])
    if (textarea.hasAttribute(name)) about[name] = textarea.getAttribute(name);
  const follow = EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    textarea.value = update.state.doc.toString();
    textarea.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const view = new EditorView({
    doc: textarea.value,
    extensions: [
      EditorView.cspNonce.of(nonce),
      EditorState.phrases.of(words),
      EditorView.contentAttributes.of(about),
      EditorView.lineWrapping,
      lineNumbers(),
      history(),
      search({ top: true }),
      keymap.of(keys),
      markdown,
      syntaxHighlighting(classHighlighter),
      theme,
      plainly,
      EditorView.perLineTextDirection.of(true),
      directions,
      follow,
    ],
  });
  return view;
};
