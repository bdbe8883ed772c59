//! `bench plot RESULTS.json OUT.svg`: a file of results as bars, in one SVG that needs nothing else.

use std::fmt::Write as _;
use std::path::Path;

use crate::report::{Figure, Report, short};

const ROW_PX: usize = 22;
const LABEL_PX: usize = 430;
const BAR_PX: f64 = 420.0;
const WIDTH_PX: usize = LABEL_PX + BAR_PX as usize + 190;
const TOP_PX: usize = 64;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let [results, out] = arguments else {
        return Err("bench plot: a file of results and the name of an SVG are needed".into());
    };
    let report = Report::load(Path::new(results))?;
    std::fs::write(out, svg(&report)).map_err(|error| format!("{out}: {error}"))?;
    println!("{out}: {} figures", report.figures.len());
    Ok(())
}

/// A bar for each figure, its length a share of the longest of its unit; marks where it would be good and at its aim.
fn svg(report: &Report) -> String {
    let height = TOP_PX + ROW_PX * report.figures.len() + 16;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH_PX}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let title = format!("bench {} at {}", report.command, report.commit);
    let about = format!("{}; its times are × {:.2} of the reference's", report.machine, report.machine_factor);
    text(&mut out, (12, 24), "font-size=\"16\" font-weight=\"bold\"", &title);
    text(&mut out, (12, 44), "fill=\"#555555\"", &about);
    for (figure, row) in report.figures.iter().zip(0..) {
        let top = TOP_PX + ROW_PX * row;
        let longest = report.figures.iter().filter(|other| other.unit == figure.unit).map(reach).fold(0.0, f64::max);
        bar(&mut out, figure, top, longest);
    }
    out.push_str("</svg>\n");
    out
}

/// How far to the right a figure goes, its marks included.
fn reach(figure: &Figure) -> f64 {
    [Some(figure.value), figure.good, figure.aim].into_iter().flatten().fold(0.0, f64::max)
}

fn bar(out: &mut String, figure: &Figure, top: usize, longest: f64) {
    let length = |value: f64| if longest > 0.0 { value / longest * BAR_PX } else { 0.0 };
    text(out, (12, top + 14), "", &figure.name);
    let fill = match (figure.good, figure.aim) {
        (Some(good), Some(aim)) => {
            let reaches = |goal: f64| if figure.rising { figure.value >= goal } else { figure.value <= goal };
            match (reaches(aim), reaches(good)) {
                (true, _) => "#2e7d32",
                (false, true) => "#8bc34a",
                (false, false) => "#d84315",
            }
        }
        _ => "#5c7cba",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<rect x=\"{LABEL_PX}\" y=\"{}\" width=\"{:.1}\" height=\"12\" fill=\"{fill}\"/>",
        top + 4,
        length(figure.value).max(1.0)
    );
    for (mark, color) in [(figure.good, "#000000"), (figure.aim, "#2e7d32")] {
        if let Some(value) = mark {
            let x = LABEL_PX as f64 + length(value);
            let (from, to) = (top + 1, top + 19);
            let _ = writeln!(out, "<path d=\"M{x:.1} {from}V{to}\" stroke=\"{color}\" stroke-width=\"2\"/>");
        }
    }
    let value = format!("{} {}", short(figure.value), figure.unit);
    text(out, (LABEL_PX + length(reach(figure)) as usize + 8, top + 14), "fill=\"#555555\"", &value);
}

fn text(out: &mut String, (x, y): (usize, usize), style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" {style}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_bar_and_marks() {
        let mut report = Report::new("design", 1.0);
        let figure = report.add("a < b", 3_000.0, "ns");
        (figure.good, figure.aim) = (Some(1_000.0), Some(500.0));
        report.add("c", 1_500.0, "ns");
        let svg = svg(&report);
        assert!(svg.contains("a &lt; b") && svg.contains("#d84315") && svg.contains("width=\"210.0\""), "{svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("<path").count()), (3, 2));
    }
}
