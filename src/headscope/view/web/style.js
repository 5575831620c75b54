// The style sheet. It lives in a shadow root, so that neither a notebook's style nor ours touches the other.
// Whoever joins the files puts the style sheets in this place (SHEETS in page.py says in which order).

export const STYLE = "{sheets}";
