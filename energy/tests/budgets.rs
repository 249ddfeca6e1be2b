//! Every budget ends what would spend more, with its line; within them nothing changes.

use std::time::{Duration, Instant};
use sumsq_energy::derive::Routines;
use sumsq_energy::rust::EnergyBuilder;
use sumsq_energy::{Budget, Budgets, Energy, EnergyError, Fault};

const PREAMBLE: &str = "local W, H = Dim('W', 0), Dim('H', 1)
local X = Unknown('X', opt_float, {W,H}, 0)
local A = Array('A', opt_float, {W,H}, 1)
";

/// The error of a file that is loaded and derived; where there is none it must have been quick, too.
fn outcome(text: &str) -> Option<EnergyError> {
    let start = Instant::now();
    let text = format!("{PREAMBLE}{text}\n");
    let error = Energy::from_text("e.t", &text).and_then(|e| Routines::build(&e)).err();
    // Ten seconds of a machine that does nothing else, built for release.
    assert!(start.elapsed() < Duration::from_secs(60), "{text}: {:?}", start.elapsed());
    error
}

fn spent(text: &str) -> Budget {
    let error = outcome(text).unwrap_or_else(|| panic!("it ends well: {text}"));
    assert!(error.location().is_some_and(|(_, line)| line.is_some_and(|l| l > 3)), "{error}");
    match error.fault() {
        Fault::Budget { budget, .. } => *budget,
        other => panic!("{other}: {text}"),
    }
}

#[test]
fn hostile_files_end() {
    for (budget, text) in [
        (Budget::Depth, "local x = X(0,0) for i = 1, 3000 do x = sin(x) end Energy(x)"),
        (Budget::Depth, "local x = X(0,0) for i = 1, 1e6 do x = x*x + x end Energy(x)"),
        (Budget::Depth, "local x = X(0,0) for i = 1, 1e6 do x = x + A(i,0)*x end Energy(x)"),
        (
            Budget::Depth,
            "local y = 1 + A(0,0) local x = X(0,0) for i = 1, 1e6 do x = x + (A(i,0)+x)^y end Energy(x)",
        ),
        (Budget::Depth, "local s = 0 for i = 1, 1e6 do s = s + A(i,0) * X(i%13,0) end Energy(s)"),
        (
            Budget::Nodes,
            "local B = Array('B', opt_float64, {W,H}, 2) for i = 1, 1e6 do local y = sin(B(i,0) * X(0,0)) end",
        ),
        (Budget::Residuals, "for i = 1, 1e6 do Energy(X(0,0)) end"),
        (Budget::Residuals, "for i = 1, 1e6 do Exclude(A(i,0)) end"),
        (Budget::Entries, "local t = {} for k = 1, 7000 do t[k] = k end Vector(unpack(t))"),
        (Budget::LuaInstructions, "for i = 1, 1e9 do string.rep('', 2^31-1) end"),
        (Budget::LuaInstructions, "while true do end"),
        (Budget::LuaMemory, "local s = 'x' while true do s = string.rep(s, 2) end"),
        (Budget::LuaMemory, "local t = {} for i = 1, 1e9 do t[i] = i end"),
    ] {
        assert_eq!(spent(text), budget, "{text}");
    }
}

#[test]
fn hostile_derivatives_end() {
    for text in [
        "local s = 1 for i = 1, 300 do s = s * (X(i,0) + A(i,0)) end Energy(s)",
        "local s = 0 for i = 1, 4000 do s = s + A(i,0) * X(i,0) end Energy(s)",
    ] {
        let error = outcome(text).expect(text);
        let Fault::Budget { routine: Some(routine), .. } = error.fault() else { panic!("{error}") };
        assert!(routine.contains('J') && error.location().unwrap().1 == Some(4), "{error}");
    }
}

#[test]
fn large_energies_stay_inside() {
    for text in [
        "for i = 1, 1000 do Energy(X(0,0) * A(i,0) - X(i%7,0)) end",
        "local s = 0 for i = -7, 7 do for j = -7, 7 do s = s + (1 + 0.37*i + 0.11*j + i*j) * X(i,j) end end Energy(s)",
        "local x = X(0,0) for i = 1, 300 do x = sin(x) end Energy(x)",
    ] {
        assert!(outcome(text).is_none(), "{text}");
    }
}

#[test]
fn budgets_are_options() {
    let text = format!("{PREAMBLE}Energy(sin(sin(X(0,0) + A(1,0))))");
    let with =
        |budgets| Energy::from_text_within("e.t", &text, budgets, |_| ()).and_then(|e| Routines::build(&e));
    assert!(with(Budgets::default()).is_ok());
    for small in [
        Budgets { nodes: 5, ..Budgets::default() },
        Budgets { steps: 5, ..Budgets::default() },
        Budgets { depth: 2, ..Budgets::default() },
        Budgets { residuals: 0, ..Budgets::default() },
        Budgets { lua_instructions: 10, ..Budgets::default() },
        Budgets { lua_memory: 20, ..Budgets::default() },
    ] {
        let error = with(small).unwrap_err();
        assert!(matches!(error.fault(), Fault::Budget { .. }), "{small:?}: {error}");
    }
    // Enough for the energy, not for its derivatives.
    let routines = with(Budgets { nodes: 40, ..Budgets::default() }).unwrap_err();
    assert!(matches!(routines.fault(), Fault::Budget { routine: Some(_), .. }), "{routines}");
}

/// The last that is possible, and one more.
#[test]
fn limits_at_their_edges() {
    let fails = |text: String| outcome(&text).map(|e| e.fault().clone());
    let dims = |n: usize| {
        let zeros = vec!["0"; n].join(",");
        format!(
            "local D = {{}} for i = 1, {n} do D[i] = Dim('D' .. i, 1 + i) end \
             local Y = Unknown('Y', opt_float, D, 2) Energy(X(0,0)) Energy(Y({zeros}))"
        )
    };
    assert_eq!(fails(dims(8)), None);
    assert_eq!(fails(dims(9)), Some(Fault::TooManyDims { name: "Y".into(), dims: 9, most: 8 }));
    let channels = |n: usize| {
        format!("local B = Array('B', opt_float{n}, {{W,H}}, 2) Energy(X(0,0) - B(0,0,{}))", n - 1)
    };
    assert_eq!(fails(channels(64)), None);
    assert!(matches!(fails(channels(65)), Some(Fault::ChannelCount { channels: 65, .. })));
    for (axis, sign) in [("{},0", 1), ("0,{}", -1)] {
        let read = |offset: i64| format!("Energy(X({}))", axis.replace("{}", &(sign * offset).to_string()));
        assert_eq!(fails(read(1 << 20)), None);
        assert!(matches!(fails(read((1 << 20) + 1)), Some(Fault::NotConstant { .. })));
    }
    for (function, more) in [("InBounds", ""), ("InBoundsExpanded", ",24")] {
        let most = if more.is_empty() { 1 << 20 } else { (1 << 20) - 24 };
        let corner = |x: i64| format!("Energy(X(0,0) * {function}({x},0{more}))");
        assert_eq!((fails(corner(most)), fails(corner(-most))), (None, None), "{function}");
        for beyond in [most + 1, -most - 1] {
            let fault = fails(corner(beyond)).expect(function);
            assert!(matches!(fault, Fault::NotConstant { .. }), "{fault}");
            assert!(fault.to_string().contains("at most 2^20"), "{fault}");
        }
    }
    for (declared, read) in [("Unknown", "Y(0,0)"), ("Param", "X(0,0) * Y")] {
        let wide = |n: usize| {
            let dims = if declared == "Param" { "" } else { "{W,H}, " };
            format!("local Y = {declared}('Y', opt_float{n}, {dims}2) Energy(X(0,0)) Energy({read})")
        };
        assert_eq!(fails(wide(64)), None);
        assert!(matches!(fails(wide(65)), Some(Fault::ChannelCount { channels: 65, .. })));
    }
    let budget = |fault: Option<Fault>| match fault {
        Some(Fault::Budget { budget, .. }) => Some(budget),
        None => None,
        Some(fault) => panic!("{fault}"),
    };
    let deep = |n: u32| format!("local x = X(0,0) for i = 1, {n} do x = sin(x) end Energy(x)");
    let long = |n: u32| {
        format!(
            "local t = {{}} for i = 1, {n} do t[i] = i end local v = Vector(unpack(t)) Energy(v(0) * X(0,0))"
        )
    };
    let many = |n: u32| format!("for i = 1, {n} do Energy(X(0,0)) end");
    let Budgets { depth, entries, residuals, .. } = Budgets::default();
    assert_eq!((budget(fails(deep(depth))), budget(fails(deep(depth + 1)))), (None, Some(Budget::Depth)));
    assert_eq!(
        (budget(fails(long(entries))), budget(fails(long(entries + 1)))),
        (None, Some(Budget::Entries))
    );
    let [most, more] = [residuals, residuals + 1].map(|n| budget(fails(many(n))));
    assert_eq!((most, more), (None, Some(Budget::Residuals)));
}

/// Places that a graph's hyperedges reach through computed arrays: 255 of B, at each of which C reads 257 neighbours.
#[test]
fn places_at_their_edge() {
    let places = |more: &str| {
        let text = format!(
            "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {{N}}, 0)\nlocal A = Array('A', opt_float, {{N}}, 1)\n\
             local G = Graph('G', 2, 'v0', {{N}}, 3)\nlocal near, far = 0, 0\n\
             for i = 0, 254 do near = near + A(i) end\nlocal B = ComputedArray('B', {{N}}, near)\n\
             for i = 0, 256 do far = far + B(255 * i) end\nlocal C = ComputedArray('C', {{N}}, far{more})\n\
             Energy(X(G.v0) - C(G.v0))"
        );
        Energy::from_text("e.t", &text)
    };
    assert_eq!(places("").unwrap().graphs[0].neighbours.len(), 65534, "and the vertex itself");
    let error = places(" + A(-1)").unwrap_err();
    assert!(matches!(error.fault(), Fault::TooManyPlaces { .. }), "{error}");
    assert!(error.to_string().contains("65535 places"), "{error}");
}

/// Budgets that no line of a file tells: with the least that is enough all is as without, with one less it is spent.
#[test]
fn counts_at_their_edges() {
    let text = format!("{PREAMBLE}for i = 1, 3 do Energy(sin(A(i,0) * X(0,0)) - X(i,1)) end");
    let with =
        |budgets| Energy::from_text_within("e.t", &text, budgets, |_| ()).and_then(|e| Routines::build(&e));
    type Set = fn(&mut Budgets, u64);
    let budgets: [(Budget, Set); 3] = [
        (Budget::Nodes, |b, n| b.nodes = n),
        (Budget::Steps, |b, n| b.steps = n),
        (Budget::LuaInstructions, |b, n| b.lua_instructions = n),
    ];
    for (budget, set) in budgets {
        let of = |n: u64| {
            let mut budgets = Budgets::default();
            set(&mut budgets, n);
            with(budgets).err()
        };
        let (mut few, mut enough) = (0, Budgets::default().of(budget));
        while enough - few > 1 {
            let middle = few + (enough - few) / 2;
            if of(middle).is_some() { few = middle } else { enough = middle }
        }
        assert!(of(enough).is_none());
        let error = of(few).unwrap();
        assert!(
            matches!(error.fault(), Fault::Budget { budget: b, most, .. } if (*b, *most) == (budget, few)),
            "{error}"
        );
        assert!(error.to_string().contains(&few.to_string()), "{error}");
    }
    let memory = |lua_memory| Budgets { lua_memory, ..Budgets::default() };
    let error = with(memory(text.len() as u64 - 1)).unwrap_err();
    assert!(matches!(error.fault(), Fault::Budget { budget: Budget::LuaMemory, .. }), "{error}");
}

#[test]
fn vertices_of_a_hyperedge_are_counted() {
    let vertices = |n: usize| {
        let e = EnergyBuilder::new();
        let dims = [e.dim("N")];
        let names: Vec<String> = (0..n).map(|i| format!("v{i}")).collect();
        let vertices: Vec<(&str, &[_])> = names.iter().map(|name| (name.as_str(), &dims[..])).collect();
        let (x, g) = (e.unknown("X", 1, &dims), e.graph("G", &vertices));
        e.energy(x.at(&g.vertex(names.last().unwrap())));
        e.finish()
    };
    assert!(vertices(65534).is_ok());
    let error = vertices(65535).unwrap_err();
    assert!(matches!(error.fault(), Fault::TooManyVertices { got: 65535, .. }), "{error}");
}

#[test]
fn budgets_hold_in_rust() {
    let e = EnergyBuilder::within(Budgets { depth: 3, ..Budgets::default() });
    let x = e.unknown("X", 1, &[e.dim("W")]);
    let mut deep = x.at([0]);
    for _ in 0..5 {
        deep = deep.sin();
    }
    e.energy(deep);
    let error = e.finish().unwrap_err();
    assert!(matches!(error.fault(), Fault::Budget { budget: Budget::Depth, most: 3, .. }), "{error}");
}
