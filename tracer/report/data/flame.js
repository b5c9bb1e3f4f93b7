// Takes the place of some functions of inferno's script, which is before this one: names that fit, numbers before names in the details,
// a search that adds up joules, a header that stays in view. Leaves out zooming and mouse events, which stay inferno's.
"use strict";

// "name (numbers)", as tooltips have it.
function parts_of(group) {
    var title = find_child(group, "title").textContent;
    var at = title.lastIndexOf(" (");
    return { name: title.substring(0, at), numbers: title.substring(at + 2, title.length - 1) };
}

// What the details show.
function g_to_text(group) {
    var parts = parts_of(group);
    return parts.numbers + "   " + parts.name;
}

// What a search looks at.
function g_to_func(group) {
    return parts_of(group).name;
}

// As `flame_names.rs` does: without arguments, then without what is before the last part, then cut off.
function fitting(group, room) {
    if (room < 3) return "";
    var name = parts_of(group).name;
    if (name.length <= room) return name;
    name = group.getAttribute("fg:short") || name;
    var kind = group.classList[0];
    var separator = { python: ".", native: "::", inlined: "::", gpu: "::" }[kind];
    while (name.length > room) {
        var at = separator === undefined ? -1 : name.indexOf(separator);
        if (at < 0) return name.substring(0, room - 1) + "…";
        name = name.substring(at + separator.length);
    }
    return name;
}

function update_text_for_elements(groups) {
    var width = frames.attributes.width.value;
    var character = known_font_width || fontsize * 0.6;
    // First everything is read, then everything is written, so that the browser lays the page out once.
    var texts = Array.prototype.map.call(groups, function(group) {
        var rect = find_child(group, "rect").attributes;
        var pixels = parseFloat(rect.width.value) * width / 100;
        var left = parseFloat(rect.x.value) + 100 * 3 / width;
        return [fitting(group, Math.floor((pixels - 6) / character)), format_percent(left)];
    });
    Array.prototype.forEach.call(groups, function(group, i) {
        var text = find_child(group, "text");
        text.textContent = texts[i][0];
        text.attributes.x.value = texts[i][1];
    });
}

function joules(uj) {
    if (uj >= 1e11) return (uj / 1e9).toFixed(1) + " kJ";
    if (uj >= 1e8) return (uj / 1e6).toFixed(1) + " J";
    if (uj >= 1e6) return (uj / 1e6).toFixed(3) + " J";
    if (uj >= 1e3) return (uj / 1e3).toFixed(2) + " mJ";
    return uj + " µJ";
}

function reset_search() {
    Array.prototype.forEach.call(frames.querySelectorAll(".match"), function(group) {
        group.classList.remove("match");
    });
    document.documentElement.classList.remove("searching");
    var params = get_params();
    delete params.s;
    history.replaceState(null, null, parse_params(params));
}

// Marks what matches and adds it up, each stretch of the picture once however many frames above each other match.
function search(term) {
    if (!term) return;
    var pattern;
    try {
        pattern = new RegExp(term);
    } catch (error) {
        details.nodeValue = "not a regular expression: " + term;
        return;
    }
    var places = [];
    Array.prototype.forEach.call(frames.children, function(group) {
        if (group.classList.contains("hide") || group.classList.contains("parent")) return;
        if (!pattern.test(g_to_func(group))) return;
        group.classList.add("match");
        var rect = find_child(group, "rect").attributes;
        places.push([parseInt(rect["fg:x"].value), parseInt(rect["fg:w"].value)]);
    });
    places.sort(function(a, b) { return a[0] - b[0] || b[1] - a[1]; });
    var sum = 0, end = 0;
    places.forEach(function(place) {
        if (place[0] < end) return;
        sum += place[1];
        end = place[0] + place[1];
    });
    searching = 1;
    document.documentElement.classList.add("searching");
    searchbtn.classList.add("show");
    searchbtn.firstChild.nodeValue = "Reset search";
    matchedtxt.classList.remove("hide");
    matchedtxt.firstChild.nodeValue = "Matched: " + joules(sum) + ", " + (100 * sum / total_samples).toFixed(1)
        + " % " + matchedtxt.getAttribute("fg:of");
    var params = get_params();
    params.s = term;
    history.replaceState(null, null, parse_params(params));
}

// Lines of the header are cut where the window ends, or a button begins.
function fit_header() {
    Array.prototype.forEach.call(document.querySelectorAll(".fitted"), function(group) {
        var whole = find_child(group, "title").textContent, text = find_child(group, "text");
        text.textContent = whole;
        var room = svg.width.baseVal.value - 2 * xpad - 100, length = text.getComputedTextLength();
        if (length > room) text.textContent = whole.substring(0, Math.floor(whole.length * room / length) - 1) + "…";
    });
}

window.addEventListener("load", function() { setTimeout(function() {
    unzoombtn.attributes.x.value = svg.width.baseVal.value - xpad;
    fit_header();
}, 0); });
window.addEventListener("resize", function() {
    unzoombtn.attributes.x.value = svg.width.baseVal.value - xpad;
    fit_header();
});
window.addEventListener("scroll", function() {
    document.getElementById("header").setAttribute("transform", "translate(0 " + window.scrollY + ")");
});
