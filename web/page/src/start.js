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

connect();
route();
