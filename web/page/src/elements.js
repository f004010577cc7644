// ---- Elements.

function make(tag, name, ...children) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...children);
  return e;
}

function drawing(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// put sets the text of an element, unless it is the same.
function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

function putFigure(e, [number, unit]) {
  if (!e.firstChild) e.append(make('span', ''), make('small', ''));
  put(e.firstChild, number);
  put(e.lastChild, unit && '\u00a0' + unit);
}

// fill fills a bar to a part, from 0 to 1, of its width.
function fill(bar, part) {
  bar.firstChild.style.width = Math.max(0, Math.min(1, part || 0)) * 100 + '%';
}

const newBar = () => {
  const b = make('span', 'bar', make('i', ''));
  b.ariaHidden = 'true';
  return b;
};

function keyLink(id, key) {
  const a = make('a', '', make('bdi', '', visible(key)));
  a.href = '#key=' + id;
  a.title = visible(key);
  return a;
}

// list gives parent one child per item, in order. A child keeps its element, its text
// selection and its focus for as long as its item stays.
function list(parent, items, id, create, update) {
  const old = new Map([...parent.children].map(e => [e.dataset.id, e]));
  const focused = document.activeElement;
  let next = parent.firstChild;
  for (const item of items) {
    const name = id(item);
    let e = old.get(name);
    old.delete(name);
    if (!e) {
      e = create(item);
      e.dataset.id = name;
    }
    if (e === next) next = next.nextSibling;
    else parent.insertBefore(e, next);
    update(e, item);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

// steady reports whether the user is working with e at the moment, so that its rows must not move.
let touched = -Infinity;
for (const kind of ['pointermove', 'pointerdown', 'keydown'])
  addEventListener(kind, e => { touched = e.timeStamp; }, { passive: true, capture: true });
const steady = e => performance.now() - touched < HOLD && (e.contains(document.activeElement) || e.matches(':hover'));

// pickable lets a click anywhere in a row follow the row's link, except on what has a use of its own.
function pickable(body) {
  body.addEventListener('click', e => {
    if (!e.target.closest('a, details') && !getSelection().toString()) e.target.closest('tr')?.querySelector('a').click();
  });
}
