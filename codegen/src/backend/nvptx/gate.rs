//! A gate in front of kernels: as text, of PTX that LLVM has printed.

/// The kernels of a module with one more parameter, behind the others: the address of an i32. A kernel returns at once where that is not 0. All
/// its threads read the same number, so that nobody waits at a barrier for one that has left.
pub fn gated(ptx: &str) -> String {
    let mut text = String::with_capacity(ptx.len() + 1024);
    // The name of the kernel whose body is still to begin.
    let mut kernel: Option<&str> = None;
    // Does it have parameters so far?
    let mut has_parameters = false;
    let mut at_top = false;
    for line in ptx.lines() {
        let code = line.trim();
        if let Some(at) = code.find(".entry ") {
            let name = code[at + 7..].split('(').next().unwrap_or_default().trim();
            (kernel, has_parameters, at_top) = (Some(name), false, false);
            if let Some(head) = line.strip_suffix("()") {
                text += &format!("{head}(\n\t.param .u64 {name}_gate\n)\n");
                continue;
            }
        }
        match kernel {
            Some(_) if code.starts_with(".param") => has_parameters = true,
            Some(name) if code == ")" => {
                if has_parameters {
                    text.insert(text.len() - 1, ',');
                }
                text += &format!("\t.param .u64 {name}_gate\n");
            }
            Some(_) if code == "{" => at_top = true,
            // Declarations come first.
            Some(name) if at_top && !(code.is_empty() || code.starts_with(['.', '/'])) => {
                text += &format!(
                    "\t.reg .pred \t%gate_p;\n\t.reg .b32 \t%gate_r;\n\t.reg .b64 \t%gate_d;\n\
                     \tld.param.b64 \t%gate_d, [{name}_gate];\n\tcvta.to.global.u64 \t%gate_d, %gate_d;\n\
                     \tld.global.b32 \t%gate_r, [%gate_d];\n\tsetp.ne.b32 \t%gate_p, %gate_r, 0;\n\t@%gate_p ret;\n"
                );
                kernel = None;
            }
            _ => {}
        }
        text += line;
        text.push('\n');
    }
    text
}
