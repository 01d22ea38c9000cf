// CodeMirror 6 as Beacon's editor of Markdown, for static/vendor/editor.js (see build.sh):
// BeaconEditor.mount(textarea, {nonce, words}) puts it in the place of a textarea, whose value follows.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { defineLanguageFacet, Language, syntaxHighlighting } from "@codemirror/language";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { GFM, parser } from "@lezer/markdown";

const markdown = new Language(defineLanguageFacet(), parser.configure([GFM]), [], "markdown");

// Colours are the page's own tokens, so that light and dark follow it.
const theme = EditorView.theme({
  "&": { color: "inherit", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { caretColor: "currentColor", padding: "8px 0" },
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

export const mount = (textarea, { nonce, words }) => {
  const label = textarea.labels[0];
  label.id ||= `${textarea.id}-label`;
  const about = { "aria-labelledby": label.id, spellcheck: "true", autocapitalize: "sentences", dir: "auto", tabindex: "0" };
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
      follow,
    ],
  });
  return view;
};
