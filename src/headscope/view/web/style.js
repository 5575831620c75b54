// The style sheet. It lives in a shadow root, so that neither a notebook's style nor ours touches the other.
// Whoever joins the files puts style.css in place of its name.

export const STYLE = "{style.css}";
