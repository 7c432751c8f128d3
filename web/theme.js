/* Dark or light: as the system says, until the switch is used. */
const KEY = 'gpuscope-theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const listeners = []

export const isDark = () => (document.documentElement.dataset.theme || (system.matches ? 'dark' : 'light')) === 'dark'
export const onTheme = listener => listeners.push(listener)
export const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

export function startTheme(button) {
	const show = () => {
		button.textContent = isDark() ? '☀ Light' : '☾ Dark'
		button.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`)
		listeners.forEach(listener => listener())
	}
	const chosen = localStorage.getItem(KEY)
	if (chosen) document.documentElement.dataset.theme = chosen
	button.addEventListener('click', () => {
		const next = isDark() ? 'light' : 'dark'
		document.documentElement.dataset.theme = next
		localStorage.setItem(KEY, next)
		show()
	})
	system.addEventListener('change', show)
	show()
}
