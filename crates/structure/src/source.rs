// SPDX-License-Identifier: Apache-2.0

//! Modules of a crate, read from its files: names they define, names they import, paths they use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree};

/// A path as it is written: `["crate", "store", "Entry"]`.
pub type Segments = Vec<String>;

/// A module.
#[derive(Debug, Default)]
pub struct Module {
    /// Its path from the root of the crate, which is empty.
    pub path: Segments,
    /// Names of items that it defines.
    pub defines: BTreeSet<String>,
    /// Names that `use` brings in, and the paths they stand for.
    pub imports: Vec<(String, Segments)>,
    /// Paths of modules imported by `use path::*`.
    pub globs: Vec<Segments>,
    /// All paths that it uses, those of imports included.
    pub uses: Vec<Segments>,
}

/// The modules of a crate, from its root file.
pub fn modules(root: &Path) -> Vec<Module> {
    let mut all = Vec::new();
    let folder = root.parent().expect("a file has a folder").to_path_buf();
    file(root, folder, Vec::new(), &mut all);
    all
}

/// Reads a file; `folder` is where the files of its child modules are.
fn file(path: &Path, folder: PathBuf, name: Segments, all: &mut Vec<Module>) {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    module(&parsed.items, &folder, name, all);
}

fn module(items: &[Item], folder: &Path, name: Segments, all: &mut Vec<Module>) {
    let mut reader =
        Reader { module: Module { path: name.clone(), ..Module::default() }, children: Vec::new() };
    items.iter().for_each(|item| reader.visit_item(item));
    let Reader { module: read, children } = reader;
    all.push(read);
    for child in children {
        let mut path = name.clone();
        path.push(child.ident.to_string());
        let below = folder.join(child.ident.to_string());
        match &child.content {
            Some((_, items)) => module(items, &below, path, all),
            None => {
                let beside = below.with_extension("rs");
                let own = if beside.exists() { beside } else { below.join("mod.rs") };
                file(&own, below, path, all);
            }
        }
    }
}

struct Reader {
    module: Module,
    children: Vec<ItemMod>,
}

impl Reader {
    fn import(&mut self, tree: &UseTree, before: &Segments) {
        let with = |name: String| before.iter().cloned().chain([name]).collect::<Segments>();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|t| self.import(t, before)),
            UseTree::Glob(_) => {
                self.module.globs.push(before.clone());
                self.module.uses.push(before.clone());
            }
            UseTree::Name(name) if name.ident == "self" => {
                let own = before.last().cloned().unwrap_or_default();
                self.bind(own, before.clone());
            }
            UseTree::Name(name) => self.bind(name.ident.to_string(), with(name.ident.to_string())),
            UseTree::Rename(name) => {
                self.bind(name.rename.to_string(), with(name.ident.to_string()));
            }
        }
    }

    fn bind(&mut self, name: String, path: Segments) {
        self.module.uses.push(path.clone());
        self.module.imports.push((name, path));
    }

    /// Paths in the text of a macro call, which is not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.used(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.used(&mut path);
                    self.tokens(group.stream());
                    colons = 0;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.used(&mut path);
                    colons = 0;
                }
            }
        }
        self.used(&mut path);
    }

    fn used(&mut self, path: &mut Segments) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.module.uses.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Enum(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Fn(i) => (&i.attrs, Some(i.sig.ident.to_string())),
            Item::Static(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Struct(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Trait(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Type(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Union(i) => (&i.attrs, Some(i.ident.to_string())),
            Item::Macro(i) => (&i.attrs, i.ident.as_ref().map(ToString::to_string)),
            Item::Mod(i) => (&i.attrs, None),
            Item::Impl(i) => (&i.attrs, None),
            Item::Use(i) => (&i.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if attributes.iter().any(is_test) {
            return;
        }
        self.module.defines.extend(name);
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.children.push(item.clone());
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, &Segments::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.used(&mut segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

/// `#[cfg(test)]`, also as one of several conditions, and `#[test]`.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        _ => false,
    }
}
