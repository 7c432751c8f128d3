"""The flame graph's page in a real browser: a script of the test clicks, searches and presses keys in
it, and writes what it sees where the browser's dump shows it. Without Chromium only the XML is
read. Run by meson: flame_page.py WRITER; exit 77 is a skip."""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SVG = '{http://www.w3.org/2000/svg}'

DRIVER = '''
const seen = {errors: []};
window.addEventListener('error', e => seen.errors.push(e.message));
function frame(label) {
	return [...document.querySelectorAll('.f')].find(
		f => f.querySelector('title').textContent.split('\\n')[0] === label);
}
function state() {
	const shown = [...document.querySelectorAll('.f')].filter(
		f => getComputedStyle(f).display !== 'none');
	return {
		shown: shown.map(f => f.querySelector('title').textContent.split('\\n')[0]),
		width: shown.map(f => Math.round(f.firstElementChild.nextElementSibling
			.getBoundingClientRect().width)),
		found: document.getElementById('found').textContent,
		details: document.getElementById('details').textContent,
		focus: document.activeElement?.querySelector?.('title')?.textContent.split('\\n')[0],
		hits: document.querySelectorAll('.found').length,
		reset: !document.getElementById('reset').disabled,
	};
}
function look(text) {
	const box = document.getElementById('search');
	box.value = text;
	box.dispatchEvent(new Event('input'));
	return state();
}
function press(key) {
	(document.activeElement || document).dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
	return state();
}
try {
seen.start = state();
seen.graph = document.querySelector('.page').getBoundingClientRect().width * .98;
frame('aten::linear').dispatchEvent(new MouseEvent('click', {bubbles: true}));
seen.zoomed = state();
seen.down = press('ArrowDown');
seen.deeper = press('Enter');
seen.up = press('ArrowUp');
document.getElementById('reset').click();
seen.reset = state();
frame('main (exp/train.py:40)').dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
seen.hover = state();
seen.launches = look('launch');
seen.nested = look('^aten::');
seen.broken = look('aten::(');
seen.nothing = look('no such name');
seen.escape = press('Escape');
seen.slash = press('/') && document.activeElement.id;
seen.script = typeof window.alerted;
} catch (e) { seen.errors.push(String(e)); }
const out = document.createElementNS('http://www.w3.org/2000/svg', 'desc');
out.id = 'seen';
out.textContent = 'SEEN' + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + 'SEEN';
document.documentElement.append(out);
'''


def need(ok, what):
    if not ok:
        sys.exit('flame_page: ' + what)


def check_xml(folder):
    root = ElementTree.parse(folder + '/step.svg').getroot()
    frames = [f for f in root.iter(SVG + 'svg') if f.get('class', '').startswith('f ')]
    need(len(frames) == 17, f'{len(frames)} frames')
    ends = {}
    for f in frames:
        x, width = float(f.get('x')[:-1]), float(f.get('width')[:-1])
        depth = int(f.get('data-d'))
        need(x >= ends.get(depth, 0) - 1e-6 and x + width <= 100 + 1e-6, 'frames overlap')
        need(depth == 0 or x + width <= ends[depth - 1] + 1e-6, 'a frame beyond its parent')
        ends[depth] = x + width
    for e in root.iter():
        need(not any('href' in a or a.startswith('on') for a in e.attrib), 'a link or handler')
    scripts = list(root.iter(SVG + 'script'))
    need(len(scripts) == 1, f'{len(scripts)} scripts')


def run_page(chromium, folder):
    with open(folder + '/step.svg', encoding='utf-8') as f:
        text = f.read()
    end = text.rindex('</svg>')
    with open(folder + '/driven.svg', 'w', encoding='utf-8') as f:
        f.write(text[:end] + '<script>//<![CDATA[\n' + DRIVER + '//]]></script>\n' + text[end:])
    environment = dict(os.environ, HOME=folder)
    shown = subprocess.run(
        [chromium, '--headless', '--no-sandbox', '--disable-gpu', '--window-size=1200,600',
         '--user-data-dir=' + folder + '/profile', '--dump-dom', 'file://' + folder + '/driven.svg'],
        capture_output=True, timeout=360, env=environment).stdout.decode()
    match = re.search('SEEN([A-Za-z0-9+/=]+)SEEN', shown)
    need(match, 'the page did not run: ' + shown[:500])
    return json.loads(base64.b64decode(match.group(1)))


def check_page(seen):
    need(not seen['errors'], 'errors: %r' % seen['errors'])
    start = seen['start']
    need(len(start['shown']) == 17 and start['shown'][0] == 'all' and not start['reset'], 'start')
    need(abs(start['width'][0] - seen['graph']) <= 2, 'the root is not as wide as the graph: %r %r' % (start['width'], seen['graph']))
    zoomed = seen['zoomed']
    need(zoomed['shown'] == ['all', 'trainer (4242)', 'thread trainer (4242)',
                             '<module> (exp/train.py:12)', 'main (exp/train.py:40)',
                             'Linear.forward (torch/nn/modules/linear.py:125)', 'aten::linear',
                             'aten::addmm', 'cudaLaunchKernel'], 'zoom: %r' % zoomed)
    need(all(abs(w - seen['graph']) <= 2 for w in zoomed['width'][:7]), 'zoom: widths')
    need(abs(zoomed['width'][7] - 0.6 * seen['graph']) <= 3, 'zoom: a part of 60 %')
    need(zoomed['focus'] == 'aten::linear' and zoomed['reset'], 'zoom: focus')
    need(seen['down']['focus'] == 'aten::addmm', 'arrow down')
    need(abs(seen['deeper']['width'][7] - seen['graph']) <= 2, 'Enter zooms')
    need(seen['up']['focus'] == 'aten::linear', 'arrow up')
    need(seen['reset']['shown'] == start['shown'] and seen['reset']['width'] == start['width'], 'reset')
    need(seen['hover']['details'] == 'main (exp/train.py:40): 400 us, 80.00 %', 'hover: %r' % seen['hover'])
    # 20 us and 5 us of 500; the operator counts once, with what is inside it.
    need(seen['launches']['hits'] == 2 and seen['launches']['found'] == '2 frames, 5.00 %',
         'search: %r' % seen['launches'])
    need(seen['nested']['found'] == '2 frames, 20.00 %', 'search: %r' % seen['nested'])
    need(seen['broken']['found'] == 'nothing found', 'no regular expression: %r' % seen['broken'])
    need(seen['nothing']['hits'] == 0 and seen['nothing']['found'] == 'nothing found', 'nothing')
    need(seen['escape']['found'] == '' and seen['escape']['shown'] == start['shown'], 'escape')
    need(seen['slash'] == 'search', 'slash')


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        check_xml(folder)
        chromium = shutil.which('chromium') or shutil.which('chromium-browser') \
            or shutil.which('google-chrome')
        if not chromium:
            print('flame_page: the XML is right; no browser here to run it in (apt: chromium)')
            sys.exit(77)
        check_page(run_page(chromium, folder))


main()
