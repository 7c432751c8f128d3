'use strict';
(function () {
	const graph = document.getElementById('graph'), details = document.getElementById('details');
	const search = document.getElementById('search'), found = document.getElementById('found');
	const reset = document.getElementById('reset'), page = document.querySelector('.page');
	const frames = [], stack = [];
	let zoomed = null, current = null;

	/* The frames stand in the order of the tree: a parent before its children. */
	for (const el of graph.children) {
		const title = el.firstElementChild.textContent.split('\n');
		const f = {
			el, text: el.lastElementChild, label: title[0], value: title[1], children: [],
			x: parseFloat(el.getAttribute('x')), w: parseFloat(el.getAttribute('width')),
			depth: +el.dataset.d, weight: +el.dataset.v, parent: null,
		};
		stack.length = Math.min(stack.length, f.depth);
		f.parent = stack.length ? stack[stack.length - 1] : null;
		if (f.parent)
			f.parent.children.push(f);
		stack.push(f);
		frames.push(f);
		el.frame = f;
	}
	const root = frames[0];

	/* Labels as far as there is room for them; the graph takes 98 % of the page. */
	function write(f, share, full) {
		const room = Math.floor((full * share / 100 - 6) / 6.4);
		f.text.textContent = room < 3 ? '' :
			f.label.length <= room ? f.label : f.label.slice(0, room - 1) + '\u2026';
	}

	function layout() {
		const z = zoomed || root;
		const above = new Set();
		for (let f = z.parent; f; f = f.parent)
			above.add(f);
		const end = z.x + z.w, slack = 1e-6, full = page.getBoundingClientRect().width * .98;
		for (const f of frames) {
			const inside = f.depth >= z.depth && f.x >= z.x - slack && f.x + f.w <= end + slack;
			const shown = inside || above.has(f);
			f.el.classList.toggle('out', !shown);
			f.el.classList.toggle('above', above.has(f));
			if (!shown)
				continue;
			const x = inside ? (f.x - z.x) / z.w * 100 : 0;
			const w = inside ? f.w / z.w * 100 : 100;
			f.el.setAttribute('x', x + '%');
			f.el.setAttribute('width', w + '%');
			write(f, w, full);
		}
		reset.disabled = z === root;
	}

	function zoom(f) {
		zoomed = f === root ? null : f;
		layout();
		focus(f);
	}

	function focus(f) {
		if (current)
			current.el.setAttribute('tabindex', '-1');
		current = f;
		f.el.setAttribute('tabindex', '0');
		f.el.focus();
	}

	function showDetails(f) {
		details.textContent = f ? f.label + ': ' + f.value : '';
	}

	/* What does not read as a regular expression is looked for as it stands. */
	function pattern(text) {
		try {
			return new RegExp(text, 'i');
		} catch (e) {
			return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
		}
	}

	function find() {
		const re = search.value ? pattern(search.value) : null;
		let n = 0, weight = 0;
		for (const f of frames) {
			f.hit = Boolean(re) && re.test(f.label);
			f.under = f.hit || Boolean(f.parent && f.parent.under);
			f.el.classList.toggle('found', f.hit);
			if (f.hit) {
				n++;
				if (!f.parent || !f.parent.under)
					weight += f.weight;
			}
		}
		found.textContent = !re ? '' : !n ? 'nothing found' :
			n + (n === 1 ? ' frame, ' : ' frames, ') +
			(root.weight ? (100 * weight / root.weight).toFixed(2) : '0.00') + ' %';
	}

	function move(f, step) {
		const all = f.parent ? f.parent.children : [f];
		const next = all[all.indexOf(f) + step];
		return next && !next.el.classList.contains('out') ? next : f;
	}

	graph.addEventListener('click', function (e) {
		const el = e.target.closest('.f');
		if (el)
			zoom(el.frame);
	});
	graph.addEventListener('mouseover', function (e) {
		const el = e.target.closest('.f');
		showDetails(el ? el.frame : null);
	});
	graph.addEventListener('mouseleave', function () { showDetails(null); });
	graph.addEventListener('focusin', function (e) { showDetails(e.target.frame); });
	graph.addEventListener('keydown', function (e) {
		const f = e.target.frame;
		if (!f || e.ctrlKey || e.altKey || e.metaKey)
			return;
		if (e.key === 'Enter' || e.key === ' ')
			zoom(f);
		else if (e.key === 'ArrowRight')
			focus(move(f, 1));
		else if (e.key === 'ArrowLeft')
			focus(move(f, -1));
		else if (e.key === 'ArrowDown' && f.children.length)
			focus(f.children.find(c => !c.el.classList.contains('out')) || f);
		else if (e.key === 'ArrowUp' && f.parent)
			focus(f.parent);
		else
			return;
		e.preventDefault();
	});
	document.addEventListener('keydown', function (e) {
		if (e.key === 'Escape') {
			search.value = '';
			find();
			zoom(root);
		} else if (e.key === '/' && document.activeElement !== search) {
			search.focus();
			e.preventDefault();
		}
	});
	search.addEventListener('input', find);
	reset.addEventListener('click', function () { zoom(root); });
	window.addEventListener('resize', layout);
	if (root) {
		root.el.setAttribute('tabindex', '0');
		current = root;
		layout();
	}
	if (search.value)
		find();
}());
