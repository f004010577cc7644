// ---- The theme: the system's, unless the user has chosen one.

const themes = ['auto', 'light', 'dark'];
const kept = {
  get theme() { try { return localStorage.getItem('theme'); } catch { return null; } },
  set theme(t) { try { localStorage.setItem('theme', t); } catch { /* the choice lasts until the page is closed */ } },
};
function theme(t) {
  document.documentElement.dataset.theme = t;
  put($('theme').lastChild, { auto: 'Auto', light: 'Light', dark: 'Dark' }[t]);
  $('theme').ariaLabel = `Theme: ${t}`;
}
theme(themes.includes(kept.theme) ? kept.theme : 'auto');
$('theme').addEventListener('click', () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  theme(next);
  kept.theme = next;
});

// ---- The key / goes to the field for a key.

addEventListener('keydown', e => {
  if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || detail.open || e.target.matches('input')) return;
  e.preventDefault();
  $('find').elements[0].focus();
});

connect();
route();
